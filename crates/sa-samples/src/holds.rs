//! What is true of all bytes, wherever they come from. Each function panics if it is not.

use ibv_sa_wire::mad::*;
use ibv_sa_wire::proto::*;
use zerocopy::{FromBytes, IntoBytes};

/// A MAD is read or refused; what is read is what is there, and an answer has the same bytes.
pub fn mad(bytes: &[u8]) -> Result<(), MadError> {
    let refused = |error: MadError| {
        assert!(!error.to_string().is_empty());
        error
    };
    let message = SaMessage::parse(bytes).map_err(refused)?;
    // Made again it is the same, as far as one MAD reaches.
    let made = SaMad::new(message.headers, message.data);
    let length = bytes.len().min(MAD_SIZE);
    assert_eq!(&made.as_bytes()[..length], &bytes[..length]);
    assert!(made.as_bytes()[length..].iter().all(|&byte| byte == 0));
    assert!(!format!("{made:?}").is_empty());
    attribute(bytes, message.inform_info());
    attribute(bytes, message.inform_info_record());
    attribute(bytes, message.mc_member_record());
    attribute(bytes, message.class_port_info());
    attribute(bytes, message.raw_notice());
    if let Ok(inform) = message.inform_info() {
        let subscription = Subscription::from_inform_info(&inform);
        let again = subscription.inform_info(inform.subscribe == 1, inform.qpn.get());
        assert_eq!(Subscription::from_inform_info(&again), subscription);
        assert!(subscription.covers(&subscription) && !subscription.to_string().is_empty());
    }
    if let Ok(records) = message.inform_info_records() {
        assert!(records.count() <= bytes.len() / InformInfoRecord::SIZE);
    }
    match message.received().map_err(refused)? {
        Received::Report(report) => answered(bytes, &report),
        received => drop(format!("{received:?}")),
    }
    Ok(())
}

/// What was read of an attribute stands behind the headers.
fn attribute<T: IntoBytes + FromBytes + zerocopy::Immutable>(bytes: &[u8], read: Result<T, MadError>) {
    if let Ok(attribute) = read {
        assert_eq!(attribute.as_bytes(), &bytes[HEADERS_SIZE..HEADERS_SIZE + size_of::<T>()]);
    }
}

fn answered(bytes: &[u8], report: &Report) {
    let notice = report.notice();
    assert_eq!(notice, notice.masked());
    assert_eq!(report.key(1).notice, notice);
    let answer = report.response();
    let answer = answer.as_bytes();
    assert_eq!((answer.len(), answer[3]), (MAD_SIZE, 0x86));
    assert_eq!((&answer[..3], &answer[4..136]), (&bytes[..3], &bytes[4..136]));
    // One line, and no more than a line.
    let line = notice.to_string();
    assert!(line.len() < 400 && !line.chars().any(char::is_control), "{line:?}");
    let _ = (notice.subject_gids(), notice.subject_lids());
}

/// A program's packet is refused, or it is the one packet that says so.
pub fn client_message(packet: &[u8]) -> Result<ClientMessage, ProtoError> {
    let read = ClientMessage::decode(packet);
    match &read {
        Ok(message) => {
            let mut made = [0; MAX_REQUEST];
            let length = message.encode(&mut made);
            assert_eq!(&made[..length], packet);
            if let ClientMessage::Register(register) = message {
                assert_eq!(register.filter.check(), Ok(()));
                assert_eq!(register.flags & !Register::FLAGS, 0);
                let name = register.port.name();
                assert!(name.len() <= PortSelector::NAME && name.bytes().all(|byte| byte.is_ascii_graphic()));
            }
        }
        Err(error) => told(error),
    }
    read
}

/// A daemon's packet is refused, or it is the one packet that says so.
pub fn server_message(packet: &[u8]) -> Result<ServerMessage<'_>, ProtoError> {
    let read = ServerMessage::decode(packet);
    match &read {
        Ok(message) => {
            let mut made = [0; MAX_PACKET];
            let length = message.encode(&mut made);
            assert_eq!(&made[..length], packet);
            match message {
                ServerMessage::Refused(refused) => {
                    assert!((-4095..0).contains(&refused.status));
                    let text = refused.text();
                    assert!(text.len() <= Refused::TEXT && !text.chars().any(char::is_control));
                }
                ServerMessage::Notice(event) => assert_eq!(event.notice, event.notice.masked()),
                ServerMessage::StatusChunk(chunk) => {
                    let end = chunk.offset() as usize + chunk.data().len();
                    assert!(!chunk.data().is_empty() && end <= chunk.total() as usize);
                }
                _ => {}
            }
        }
        Err(error) => told(error),
    }
    read
}

fn told(error: &ProtoError) {
    let text = error.to_string();
    assert!(!text.is_empty() && !text.chars().any(char::is_control), "{text:?}");
}

/// What is said of a file, as line, column and text: at least one thing and not too many, each at a place that the
/// file has, on one line.
pub fn problems<'a>(file: &str, said: impl ExactSizeIterator<Item = (usize, usize, &'a str)>) {
    assert!((1..=20).contains(&said.len()), "{} problems", said.len());
    let lines: Vec<&str> = file.split('\n').collect();
    for (line, column, text) in said {
        assert!((1..=lines.len()).contains(&line), "{line}:{column}: {text}");
        assert!((1..=lines[line - 1].chars().count() + 1).contains(&column), "{line}:{column}: {text}");
        assert!(!text.is_empty() && !text.chars().any(char::is_control), "{line}:{column}: {text}");
    }
}

/// A description for a person has lines and no other control characters.
pub fn description(text: &str) {
    assert!(!text.is_empty() && text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
}
