//! Behaviour of whole runs.
