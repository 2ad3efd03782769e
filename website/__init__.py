"""The site: what `make docs` adds to the pages of `docs/`, so that they also read well as plain Markdown."""
