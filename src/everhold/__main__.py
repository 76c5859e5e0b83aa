"""`python -m everhold` is the command line."""

from everhold.cli.main import main

if __name__ == "__main__":
    main()
