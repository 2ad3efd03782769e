"""Teach a frozen pre-trained model new classes for ever."""

__version__ = "0.1.0"
