//! What the bytes mean that the fuzz target `session` gets: one step after the other, each with a tag, a number, a length in two bytes
//! (little-endian) and so many bytes. What is cut off is as long as it is.

/// Connections that a session has at a time.
pub const PROGRAMS: usize = 4;

/// Something that happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step<'a> {
    /// A program sends a packet; it connects if it is not connected.
    Packet(usize, &'a [u8]),
    /// A MAD arrives from this LID, modulo 4.
    Mad(u16, &'a [u8]),
    /// A program connects anew, and sends its Hello.
    Hello(usize),
    /// A program hangs up.
    Close(usize),
    /// The SA tells of trap 64 plus this, modulo 4, about a GID that ends in it.
    Notice(u8),
}

/// The steps that the bytes are.
pub fn steps(mut bytes: &[u8]) -> impl Iterator<Item = Step<'_>> {
    std::iter::from_fn(move || {
        let [tag, number, low, high, rest @ ..] = bytes else { return None };
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (body, after) = rest.split_at(length);
        bytes = after;
        let program = usize::from(*number) % PROGRAMS;
        Some(match tag % 5 {
            0 => Step::Packet(program, body),
            1 => Step::Mad(u16::from(*number) % 4, body),
            2 => Step::Hello(program),
            3 => Step::Close(program),
            _ => Step::Notice(*number),
        })
    })
}

impl Step<'_> {
    /// The bytes that are this step.
    pub fn bytes(&self) -> Vec<u8> {
        let (tag, number, body): (u8, u8, &[u8]) = match self {
            Step::Packet(program, body) => (0, *program as u8, body),
            Step::Mad(lid, body) => (1, *lid as u8, body),
            Step::Hello(program) => (2, *program as u8, &[]),
            Step::Close(program) => (3, *program as u8, &[]),
            Step::Notice(number) => (4, *number, &[]),
        };
        let mut bytes = vec![tag, number];
        bytes.extend((body.len() as u16).to_le_bytes());
        bytes.extend(body);
        bytes
    }
}
