"""How Hypothesis runs the targets: loaded before they are, since it binds when a test is made."""

from hypothesis import HealthCheck, settings

ROUND = 25
"""Examples of one target in one go: small, so that a short run is short for each."""

UNSUITED = [
    HealthCheck.data_too_large,
    HealthCheck.filter_too_much,
    HealthCheck.large_base_example,
    HealthCheck.too_slow,
]
"""Advice for unit tests: a fuzzer may take its time, and throw examples away."""


def load() -> None:
    settings.register_profile(
        "fuzz", deadline=None, max_examples=ROUND, suppress_health_check=UNSUITED
    )
    settings.load_profile("fuzz")
