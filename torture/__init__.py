"""The attack as a part of the project: each promise, tried thousands of times, seeded and replayable."""
