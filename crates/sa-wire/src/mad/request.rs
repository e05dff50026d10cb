//! The MADs that a subscriber sends. All are complete: the transport adds the address only.

use zerocopy::IntoBytes;

use super::{Attribute, Headers, InformInfoRecord, Method, SaMad, Subscription};
use crate::Gid;

/// Subscribes.
///
/// The SA remembers the address and queue pair that the request comes from; what is sent in the queue pair field
/// does not matter. A subscription that stands already is answered with status 0 and stands once.
pub fn subscribe(tid: u64, subscription: &Subscription) -> SaMad {
    let headers = Headers::request(Method::SET, Attribute::INFORM_INFO, tid);
    SaMad::new(headers, subscription.inform_info(true, 0).as_bytes())
}

/// Ends a subscription.
///
/// All fields have to be those it was made with, `qpn` the queue pair it was made from, and the request has to go
/// the same way (LID, path bits, service level, partition, GRH, queue pair). Otherwise, and also where there is no
/// such subscription any more, the answer is [`super::Status::REQ_INVALID`].
pub fn unsubscribe(tid: u64, subscription: &Subscription, qpn: u32) -> SaMad {
    let headers = Headers::request(Method::SET, Attribute::INFORM_INFO, tid);
    SaMad::new(headers, subscription.inform_info(false, qpn).as_bytes())
}

/// Asks for the SA's table of subscriptions: of one subscriber, or all that share a partition with us.
pub fn inform_info_table(tid: u64, subscriber: Option<Gid>) -> SaMad {
    let mut headers = Headers::request(Method::GET_TABLE, Attribute::INFORM_INFO_RECORD, tid);
    let mut record = InformInfoRecord::default();
    if let Some(gid) = subscriber {
        headers.sa.component_mask = InformInfoRecord::MASK_SUBSCRIBER.into();
        record.subscriber = gid;
    }
    SaMad::new(headers, record.as_bytes())
}

/// Asks what the SA is. The cheapest question there is: any master SM answers it.
pub fn class_port_info(tid: u64) -> SaMad {
    SaMad::new(Headers::request(Method::GET, Attribute::CLASS_PORT_INFO, tid), &[])
}
