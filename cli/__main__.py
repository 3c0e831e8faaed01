"""`python -m cli`, for a checkout that is not installed."""

from cli.main import main

if __name__ == "__main__":
    main()
