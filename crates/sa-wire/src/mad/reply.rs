//! The MADs that an SA sends: for an SA inside the process, and for tests that play one.

use zerocopy::IntoBytes;

use super::{Attribute, HEADERS_SIZE, Headers, InformInfoRecord, Method, Notice, SaMad, SaMessage, Status};

/// Forwards a notice to a subscriber.
pub fn report(tid: u64, notice: &Notice) -> SaMad {
    SaMad::new(Headers::request(Method::REPORT, Attribute::NOTICE, tid), notice.as_bytes())
}

/// Answers a Get or a Set: with the attribute, or, under a status, with what was sent.
pub fn get_resp<A: IntoBytes + zerocopy::Immutable>(
    request: &SaMessage<'_>,
    status: Status,
    attribute: &A,
) -> SaMad {
    let mut headers = request.headers;
    headers.mad.method = Method::GET_RESP;
    headers.mad.status = status.0.into();
    // Distance to a second record in units of 8 bytes, cut off: OpenSM has 4 for the 36 bytes of an InformInfo.
    let is_record = headers.mad.attribute() != Attribute::CLASS_PORT_INFO;
    if status.is_ok() && is_record {
        headers.sa.offset = ((size_of::<A>() / 8) as u16).into();
    }
    SaMad::new(headers, attribute.as_bytes())
}

/// Answers a GetTable with the records that fit into `message`; returns the length. More than 256 bytes is what a
/// kernel makes of several segments.
pub fn inform_info_table(request: &SaMessage<'_>, records: &[InformInfoRecord], message: &mut [u8]) -> usize {
    let mut headers = request.headers;
    headers.mad.method = Method::GET_TABLE_RESP;
    headers.rmpp.time_flags = 1;
    if !records.is_empty() {
        headers.sa.offset = ((size_of::<InformInfoRecord>() / 8) as u16).into();
    }
    let bytes = headers.as_bytes().iter().chain(records.as_bytes());
    let mut len = 0;
    for (to, from) in message.iter_mut().zip(bytes) {
        *to = *from;
        len += 1;
    }
    // No record is cut.
    if len > HEADERS_SIZE { len - (len - HEADERS_SIZE) % size_of::<InformInfoRecord>() } else { len }
}
