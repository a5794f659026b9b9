"""Figures of the source tree: ``python -m tests.house``, or ``make house``.

Prints the size of the product, and then what four operations use: a put, the join of a step, a
publish, and the life of a run with one step, one put and one gate. All figures are counts, not
times, so two runs on one tree print the same.
"""

import sys
from pathlib import Path

from tests.house.operations import profile_operations
from tests.house.sizes import circles, product_files, sizes

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    """Print the figures of this tree, or of the tree in the given folder."""
    root = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT
    sys.path.insert(0, str(root))
    files = product_files(root)
    print("product (graveler and integrations)")
    for name, figure in sizes(root, files).items():
        print(f"  {name:24}{figure}")
    found = circles(root, files)
    print(f"  {'circles of imports':24}{len(found)}")
    for circle in found:
        print(f"    {' '.join(circle)}")
    print()
    titles = ("files", "runs up", "gates", "engine", "calls", "KV", "objects")
    print(f"{'operation':16}" + "".join(f"{title:>9}" for title in titles))
    profiles = profile_operations(root / "graveler")
    for name, profile in profiles.items():
        figures = (
            len(profile.files),
            *profile.floors,
            profile.calls,
            sum(profile.kv.values()),
            sum(profile.objects.values()),
        )
        print(f"{name:16}" + "".join(f"{figure:9}" for figure in figures))
    for name, profile in profiles.items():
        print(f"\n{name}")
        for title, counts in (
            ("files", profile.packages),
            ("KV", profile.kv),
            ("objects", profile.objects),
        ):
            print(f"  {title:9}{', '.join(f'{key} {counts[key]}' for key in sorted(counts))}")


if __name__ == "__main__":
    main()
