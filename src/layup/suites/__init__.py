"""The paper's tables and figures as data: what to run, what the paper says, how to draw it."""
