"""Speed and memory as ratios measured side by side in one run, and the choices that rest on measurements."""
