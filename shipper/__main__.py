"""``python -m shipper`` is the ``shipper`` command."""

from shipper.cli import main

main()
