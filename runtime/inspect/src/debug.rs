//! The debug page: a page in the browser that shows the inside of the running program. The page of
//! `runtime::debug` says what users see, and who may ask.

mod answer;
mod client;
mod connections;
mod handler;
mod request;
mod rooms;
mod server;
mod token;

pub use answer::Answer;
pub use handler::Handler;
pub use server::{Access, Rules, Server};
pub use token::Token;
