"""Private helpers: validation, files, threads, time limits, progress and summaries."""
