"""Libraries that use oppa, or that it reports from. Each module needs its library."""
