"""Long-running targets for our own code; README.md says how to run them.

What is here is for finding faults, the tests in `tests/` are for keeping them out. A target takes
whatever it is given and states what must hold for all of it; who gives it is Hypothesis, HypoFuzz,
atheris, or a generator of a million messages.
"""
