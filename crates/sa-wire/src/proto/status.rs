//! How the daemon is: ports, subscriptions and owners, counters, queues, as JSON in as many packets as it takes.

use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{HEADER_SIZE, Kind, MAX_PACKET, ProtoError, wire};

/// Asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusQuery {
    /// Comes back in the answer.
    pub query: u32,
}

/// Part of the answer. The chunks of one query come in order and without gaps, with other packets in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusChunk<'a> {
    query: u32,
    offset: u32,
    total: u32,
    data: &'a [u8],
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct QueryBody {
    query: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct ChunkBody {
    query: U32,
    offset: U32,
    total: U32,
}

impl<'a> StatusChunk<'a> {
    /// Bytes of the answer in one packet at most.
    pub const MAX_DATA: usize = MAX_PACKET - HEADER_SIZE - size_of::<ChunkBody>();

    fn new(query: u32, offset: u32, total: u32, data: &'a [u8]) -> Result<StatusChunk<'a>, ProtoError> {
        let end = (offset as usize).checked_add(data.len());
        if data.is_empty() || data.len() > Self::MAX_DATA || end.is_none_or(|end| end > total as usize) {
            return Err(ProtoError::Chunk { offset, len: data.len(), total });
        }
        Ok(StatusChunk { query, offset, total, data })
    }

    /// Whose answer it is part of.
    pub fn query(&self) -> u32 {
        self.query
    }

    /// Where the part begins.
    pub fn offset(&self) -> u32 {
        self.offset
    }

    /// Length of the whole answer.
    pub fn total(&self) -> u32 {
        self.total
    }

    /// The part; not empty.
    pub fn data(&self) -> &'a [u8] {
        self.data
    }

    /// Whether the answer is complete with it.
    pub fn is_last(&self) -> bool {
        self.offset as usize + self.data.len() == self.total as usize
    }

    pub(super) fn read(body: &'a [u8]) -> Result<StatusChunk<'a>, ProtoError> {
        let (head, data) = ChunkBody::read_from_prefix(body).map_err(|_| ProtoError::Short {
            need: HEADER_SIZE + size_of::<ChunkBody>(),
            have: HEADER_SIZE + body.len(),
        })?;
        StatusChunk::new(head.query.get(), head.offset.get(), head.total.get(), data)
    }

    pub(super) fn write(&self, packet: &mut [u8]) -> usize {
        let head =
            ChunkBody { query: self.query.into(), offset: self.offset.into(), total: self.total.into() };
        wire::seal(packet, Kind::STATUS_CHUNK, &[head.as_bytes(), self.data])
    }
}

/// The packets of an answer. It must not be empty (no packet would end it) nor have 4 GiB.
pub fn status_chunks(query: u32, answer: &[u8]) -> impl Iterator<Item = StatusChunk<'_>> {
    let total = u32::try_from(answer.len()).unwrap_or(u32::MAX);
    let size = StatusChunk::MAX_DATA;
    answer
        .chunks(size)
        .enumerate()
        .filter_map(move |(n, data)| StatusChunk::new(query, u32::try_from(n * size).ok()?, total, data).ok())
}

impl StatusQuery {
    pub(super) fn read(body: &[u8]) -> Result<StatusQuery, ProtoError> {
        let body: QueryBody = wire::body(body)?;
        Ok(StatusQuery { query: body.query.get() })
    }

    pub(super) fn write(&self, packet: &mut [u8]) -> usize {
        wire::seal(packet, Kind::STATUS_QUERY, &[QueryBody { query: self.query.into() }.as_bytes()])
    }
}
