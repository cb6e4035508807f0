"""``python -m genar``."""

from genar.cli.app import main

main()
