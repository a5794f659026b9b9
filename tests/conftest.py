"""What every test shares: how hard hypothesis tries."""

from hypothesis import HealthCheck, settings

from graveler.config import environment

settings.register_profile("dev", max_examples=50, deadline=None)
# the same examples on every run: a red CI is then about the change, not about the draw
settings.register_profile(
    "ci",
    max_examples=50,
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ci" if environment("CI") else "dev")
