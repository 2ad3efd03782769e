"""`python -m layup` is `layup`."""

from layup.cli import main

if __name__ == "__main__":
    main()
