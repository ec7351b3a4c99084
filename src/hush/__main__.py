"""``python -m hush``: the command line."""

from hush.cli import main

if __name__ == "__main__":
    main()
