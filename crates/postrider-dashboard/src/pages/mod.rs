//! The pages, one file each. A page reads through the operations, and renders its template.

pub(crate) mod assets;
pub(crate) mod audit;
pub(crate) mod changes;
pub(crate) mod doctor;
pub(crate) mod event;
pub(crate) mod events;
pub(crate) mod handlers;
pub(crate) mod inbox;
pub(crate) mod live;
pub(crate) mod login;
pub(crate) mod overview;
pub(crate) mod parked;
pub(crate) mod replay;
pub(crate) mod state;
pub(crate) mod subscription;
