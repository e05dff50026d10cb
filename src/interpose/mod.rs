//! The functions that do more than forward.

pub(crate) mod async_event;
pub(crate) mod backlog;
pub(crate) mod bad_ack;
pub(crate) mod comp_event;
pub(crate) mod completion;
pub(crate) mod context;
pub(crate) mod destroy;
pub(crate) mod hand_over;
pub(crate) mod headroom;
pub(crate) mod inline;
pub(crate) mod jump;
pub(crate) mod lint;
pub(crate) mod modify;
pub(crate) mod object;
pub(crate) mod poll;
pub(crate) mod posting;
pub(crate) mod removal;
pub(crate) mod resize;
pub(crate) mod trampoline;
