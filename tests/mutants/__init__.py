"""Mutants: the product with one rule removed.

``python -m tests.mutants`` removes each rule of DESIGN's table of invariants in turn, in a copy of
the tree, and shows that the test that the table names fails. ``table.py`` lists the mutants,
``design.py`` reads docs/understand/design.md, and ``trial.py`` runs a mutant.
"""
