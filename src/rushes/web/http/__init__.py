"""What HTTP needs beside routes: limits, errors, ranges, streams, bodies."""
