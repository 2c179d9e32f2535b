"""Run the mavcg command as `python -m mavcg.cli`, for a PATH that lacks its script."""

from mavcg.cli import main

if __name__ == "__main__":
    main()
