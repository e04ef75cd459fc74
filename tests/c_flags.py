"""Flags with which all exported C compiles without a warning."""

FLAGS = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror")
