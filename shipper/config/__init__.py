"""Configuration: the models that check a user's files and describe them.

Nothing is imported here: each of Spark's Python processes needs the models, and none of them needs
YAML or the schemas, which take 0.3 s to import.
"""
