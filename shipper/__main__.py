"""``python -m shipper`` is the ``shipper`` command."""

from shipper.cli.main import main

main()
