//! What a replay says, as text for a person and as JSON for a program. Pure.
//!
//! Every sentence is in [`messages`] and [`caveats`], which the HTML page uses, too.

pub mod caveats;
pub mod exhibits;
pub mod gain;
pub mod json;
pub mod messages;
pub mod source;
pub mod text;
