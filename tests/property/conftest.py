from __future__ import annotations

from hypothesis import settings

#: `make unit` looks at as many examples as show a fault that is not rare, and `make long`
#: (``--hypothesis-profile=long``) looks for the others.
settings.register_profile("unit", deadline=None, max_examples=50)
settings.register_profile("long", deadline=None, max_examples=500)
settings.load_profile("unit")
