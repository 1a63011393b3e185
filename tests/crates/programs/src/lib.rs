//! This package has examples: `bank`, `crawler` and `service`.
