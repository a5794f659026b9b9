"""What every room uses: clock, forks, threads, retries, stored JSON, arguments, telemetry."""
