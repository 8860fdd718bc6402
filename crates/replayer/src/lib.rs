//! Native replay of a program: real threads, real locks, calibrated work.
