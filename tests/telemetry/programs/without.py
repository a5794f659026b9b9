"""A lake in a process without OpenTelemetry, whose import fails."""

import sys

sys.modules["opentelemetry"] = None  # type: ignore[assignment]

import graveler

with graveler.init(sys.argv[1]) as lake:
    main = lake.create_repository("flights").branch("main")
    main.put("a", b"1")
    main.commit("a")
    assert main.get("a") == b"1"
print(sorted(name for name in sys.modules if name.startswith("opentelemetry.")))
