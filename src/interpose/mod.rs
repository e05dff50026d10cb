//! The functions that do more than forward.

pub(crate) mod async_event;
pub(crate) mod comp_event;
pub(crate) mod context;
pub(crate) mod inline;
pub(crate) mod jump;
pub(crate) mod object;
pub(crate) mod trampoline;
