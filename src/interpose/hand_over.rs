//! Acks that go to libibverbs from our hands.

use ibv_sa_ledger::{Handed, Kind};

use crate::abi::*;
use crate::provider::real;

/// Passes acks of an object on.
///
/// # Safety
/// `object` is alive, of this kind, and stays so until libibverbs has counted these acks.
pub(crate) unsafe extern "C-unwind" fn hand_over(kind: Kind, object: *mut c_void, handed: Handed) {
    if let Some(ack) = real::ibv_ack_async_event() {
        for _ in 0..handed.events {
            let mut event = ibv_async_event {
                // All members of the union lie at one place; libibverbs takes the one that the type names.
                element: ibv_async_event__bindgen_ty_1 { qp: object.cast() },
                event_type: kind.any_event(),
            };
            // SAFETY: the event names a live object of the kind that goes with its type, as the caller promises.
            unsafe { ack(&mut event) };
        }
    }
    if handed.completions != 0
        && let Some(ack) = real::ibv_ack_cq_events()
    {
        // SAFETY: only CQs have completion events; alive, as the caller promises.
        unsafe { ack(object.cast(), handed.completions) };
    }
}
