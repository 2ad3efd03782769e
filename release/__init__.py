"""What a maintainer runs before a release: `python -m release` (docs/releasing.md)."""
