// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Perfetto's native format: a packet for each begin and end of a call and for each event, names
//! interned, times on CLOCK_MONOTONIC.

use std::collections::{HashMap, HashSet};

use anyhow::Result;
use cowlab_casper::profile::Ended;
use cowlab_casper::read::{Record, Value};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};

use super::schema::*;
use super::{Function, OutputFile, Thread};

/// All packets are of one sequence: one writer, which interns names for itself.
const SEQUENCE: u32 = 1;

/// Track uuids: what they are of in the upper half, its number in the lower.
const PROCESS: u64 = 1 << 32;
const THREAD: u64 = 2 << 32;
const HANDLERS: u64 = 3 << 32;

#[derive(Clone, Copy)]
enum Category {
    Function = 1,
    Event = 2,
}

const CATEGORIES: [(Category, &str); 2] =
    [(Category::Function, "function"), (Category::Event, "event")];

/// A Perfetto trace that is being written.
pub struct Perfetto {
    file: OutputFile,
    packet: Vec<u8>,
    event_names: HashMap<String, u64>,
    annotation_names: HashMap<String, u64>,
    /// Functions whose place in the source was told.
    located: HashSet<u32>,
    /// What the next packet must tell before it refers to it.
    interned: InternedData,
}

impl Perfetto {
    /// Begin it with the same moment on two clocks.
    pub fn begin(file: OutputFile, monotonic_ns: u64, realtime_ns: i64) -> Result<Perfetto> {
        let mut perfetto = Perfetto {
            file,
            packet: Vec::new(),
            event_names: HashMap::new(),
            annotation_names: HashMap::new(),
            located: HashSet::new(),
            interned: InternedData::default(),
        };
        for (category, name) in CATEGORIES {
            perfetto.interned.event_categories.push(interned(category as u64, name));
        }
        let clock = |id: BuiltinClock, timestamp: u64| Clock {
            clock_id: Some(id as u32),
            timestamp: Some(timestamp),
        };
        // Times are on CLOCK_MONOTONIC, and the trace is shown on it: what CLOCK_BOOTTIME, the
        // usual one, said was not recorded.
        let snapshot = ClockSnapshot {
            clocks: vec![
                clock(BuiltinClock::Monotonic, monotonic_ns),
                clock(BuiltinClock::Realtime, realtime_ns.max(0) as u64),
            ],
            primary_trace_clock: Some(BuiltinClock::Monotonic as i32),
        };
        perfetto.put(TracePacket {
            timestamp: Some(monotonic_ns),
            sequence_flags: Some(SEQ_INCREMENTAL_STATE_CLEARED),
            trace_packet_defaults: Some(TracePacketDefaults {
                timestamp_clock_id: Some(BuiltinClock::Monotonic as u32),
            }),
            data: Some(Data::ClockSnapshot(snapshot)),
            ..TracePacket::default()
        })?;
        Ok(perfetto)
    }

    /// Write a packet, with what was interned for it.
    fn put(&mut self, mut packet: TracePacket) -> Result<()> {
        packet.trusted_packet_sequence_id = Some(SEQUENCE);
        packet.sequence_flags.get_or_insert(SEQ_NEEDS_INCREMENTAL_STATE);
        if self.interned != InternedData::default() {
            packet.interned_data = Some(std::mem::take(&mut self.interned));
        }
        self.packet.clear();
        encode_key(1, WireType::LengthDelimited, &mut self.packet);
        encode_varint(packet.encoded_len() as u64, &mut self.packet);
        packet.encode(&mut self.packet)?;
        self.file.write(&self.packet)
    }

    fn descriptor(&mut self, track: TrackDescriptor) -> Result<()> {
        self.put(TracePacket { data: Some(Data::TrackDescriptor(track)), ..TracePacket::default() })
    }

    fn track_event(
        &mut self,
        time_ns: u64,
        thread: &Thread,
        kind: TrackEventType,
        event: TrackEvent,
    ) -> Result<()> {
        self.put(TracePacket {
            timestamp: Some(time_ns),
            data: Some(Data::TrackEvent(TrackEvent {
                r#type: Some(kind as i32),
                track_uuid: Some(uuid(thread)),
                ..event
            })),
            ..TracePacket::default()
        })
    }

    fn event_name(&mut self, name: &str) -> u64 {
        intern(&mut self.event_names, &mut self.interned.event_names, name)
    }

    fn annotation(&mut self, name: &str, value: &Value<'_>) -> DebugAnnotation {
        let number =
            intern(&mut self.annotation_names, &mut self.interned.debug_annotation_names, name);
        DebugAnnotation { name_iid: Some(number), ..annotation_of(value) }
    }

    /// The number of a function's place in the source, if that is known.
    fn location(&mut self, function: &Function) -> Option<u64> {
        let file = function.file.as_ref()?;
        // 0 is no number.
        let number = u64::from(function.number) + 1;
        if self.located.insert(function.number) {
            self.interned.source_locations.push(SourceLocation {
                iid: Some(number),
                file_name: Some(file.clone()),
                function_name: Some(function.name.clone()),
                line_number: function.line,
            });
        }
        Some(number)
    }
}

/// The track of a thread. Signal handlers that interrupted the recording have one below it.
fn uuid(thread: &Thread) -> u64 {
    u64::from(thread.number) | if thread.level == 0 { THREAD } else { HANDLERS }
}

fn interned(number: u64, name: &str) -> InternedName {
    InternedName { iid: Some(number), name: Some(name.to_owned()) }
}

/// The number of a name, told with the next packet if it is new.
fn intern(known: &mut HashMap<String, u64>, told: &mut Vec<InternedName>, name: &str) -> u64 {
    if let Some(number) = known.get(name) {
        return *number;
    }
    let number = known.len() as u64 + 1;
    known.insert(name.to_owned(), number);
    told.push(interned(number, name));
    number
}

fn annotation_of(value: &Value<'_>) -> DebugAnnotation {
    let value = match value {
        Value::List(values) => {
            let array_values = values.iter().map(annotation_of).collect();
            return DebugAnnotation { array_values, ..DebugAnnotation::default() };
        }
        Value::Unsigned(value) => AnnotationValue::Uint(*value),
        Value::Signed(value) => AnnotationValue::Int(*value),
        Value::Float(value) => AnnotationValue::Double(*value),
        Value::Address(value) => AnnotationValue::Pointer(*value),
        Value::Text(value) => AnnotationValue::String(String::from_utf8_lossy(value).into_owned()),
    };
    DebugAnnotation { value: Some(value), ..DebugAnnotation::default() }
}

impl Perfetto {
    pub fn process(&mut self, number: u32, pid: u32, process_name: Option<String>) -> Result<()> {
        self.descriptor(TrackDescriptor {
            uuid: Some(PROCESS | u64::from(number)),
            process: Some(ProcessDescriptor { pid: Some(pid as i32), process_name }),
            ..TrackDescriptor::default()
        })
    }

    pub fn thread(&mut self, thread: &Thread) -> Result<()> {
        let parent_uuid = Some(PROCESS | u64::from(thread.process));
        let track = TrackDescriptor { uuid: Some(uuid(thread)), parent_uuid, ..Default::default() };
        self.descriptor(if thread.level == 0 {
            TrackDescriptor {
                thread: Some(ThreadDescriptor {
                    pid: Some(thread.pid as i32),
                    tid: Some(thread.tid as i32),
                    thread_name: thread.name.clone(),
                }),
                ..track
            }
        } else {
            let name = format!("signal handlers in thread {}, depth {}", thread.tid, thread.level);
            TrackDescriptor { name: Some(name), ..track }
        })
    }

    pub fn call_begins(
        &mut self,
        thread: &Thread,
        time_ns: u64,
        function: &Function,
    ) -> Result<()> {
        let event = TrackEvent {
            category_iids: vec![Category::Function as u64],
            name_iid: Some(self.event_name(&function.name)),
            source_location_iid: self.location(function),
            ..TrackEvent::default()
        };
        self.track_event(time_ns, thread, TrackEventType::SliceBegin, event)
    }

    pub fn call_ends(&mut self, thread: &Thread, time_ns: u64, ended: Ended) -> Result<()> {
        let mut event = TrackEvent::default();
        let how = match ended {
            Ended::Returned => None,
            Ended::Left => Some("left by longjmp"),
            Ended::CutByLoss => Some("unknown: events were lost"),
            Ended::Open => Some("not over when the recording was"),
        };
        if let Some(how) = how {
            event.debug_annotations.push(self.annotation("ended", &Value::Text(how.as_bytes())));
        }
        self.track_event(time_ns, thread, TrackEventType::SliceEnd, event)
    }

    pub fn event(&mut self, thread: &Thread, record: &Record) -> Result<()> {
        let name = record
            .schema
            .map_or_else(|| format!("type-{}", record.event_type), |schema| schema.name.clone());
        let mut event = TrackEvent {
            category_iids: vec![Category::Event as u64],
            name_iid: Some(self.event_name(&name)),
            ..TrackEvent::default()
        };
        for field in record.fields() {
            event.debug_annotations.push(self.annotation(field.name, &field.value));
        }
        self.track_event(record.time_ns, thread, TrackEventType::Instant, event)
    }

    pub fn finish(self) -> Result<()> {
        self.file.commit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cowlab_casper::meta::{EventType, FieldKind, FieldType};
    use cowlab_casper::read::Owner;

    #[derive(Clone, PartialEq, Message)]
    struct Trace {
        #[prost(message, repeated, tag = "1")]
        packet: Vec<TracePacket>,
    }

    fn thread(level: u32) -> Thread {
        Thread { number: 7, process: 1, pid: 10, tid: 11, name: None, level }
    }

    fn written(tell: impl FnOnce(&mut Perfetto)) -> Vec<TracePacket> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace");
        let file = OutputFile::create(&path).unwrap();
        let mut perfetto = Perfetto::begin(file, 1000, 5000).unwrap();
        tell(&mut perfetto);
        perfetto.finish().unwrap();
        Trace::decode(&std::fs::read(&path).unwrap()[..]).unwrap().packet
    }

    #[test]
    fn names_are_told_once_and_before_they_are_used() {
        let function =
            Function { number: 3, name: "f".into(), file: Some("f.c".into()), line: Some(12) };
        let packets = written(|perfetto| {
            for time in [1, 2] {
                perfetto.call_begins(&thread(0), time, &function).unwrap();
            }
        });
        assert_eq!(packets.len(), 3);
        assert_eq!(packets[0].sequence_flags, Some(SEQ_INCREMENTAL_STATE_CLEARED));
        let told = packets[1].interned_data.as_ref().unwrap();
        assert_eq!(told.event_names, [interned(1, "f")]);
        assert_eq!(told.source_locations[0].line_number, Some(12));
        assert_eq!(packets[2].interned_data, None);
        assert_eq!(packets[2].sequence_flags, Some(SEQ_NEEDS_INCREMENTAL_STATE));
    }

    #[test]
    fn fields_are_annotations() {
        let field = |name: &str, offset, count, kind| FieldType {
            name: name.into(),
            unit: String::new(),
            offset,
            size: 2,
            count,
            kind,
        };
        let schema = EventType {
            event_type: 1,
            name: "hit".into(),
            event_bytes: 6,
            fields: vec![
                field("at", 2, 1, FieldKind::Address),
                field("all", 0, 2, FieldKind::Signed),
                field("beyond", 4, 1, FieldKind::Signed),
            ],
        };
        let record = Record {
            ticks: 9,
            time_ns: 9,
            owner: Owner::default(),
            stream: 1,
            level: 0,
            event_type: 1,
            bytes: &[1, 0, 2, 0],
            schema: Some(&schema),
        };
        let packets = written(|perfetto| perfetto.event(&thread(0), &record).unwrap());
        let Some(Data::TrackEvent(event)) = &packets[1].data else { panic!("{packets:?}") };
        // What the event is too short for is left out, not 0.
        assert_eq!(event.debug_annotations.len(), 2);
        assert_eq!(event.debug_annotations[0].value, Some(AnnotationValue::Pointer(2)));
        assert_eq!(event.debug_annotations[1].array_values.len(), 2);
    }

    #[test]
    fn signal_handlers_have_tracks_of_their_own() {
        assert_ne!(uuid(&thread(0)), uuid(&thread(1)));
        let packets = written(|perfetto| perfetto.thread(&thread(1)).unwrap());
        let Some(Data::TrackDescriptor(track)) = &packets[1].data else { panic!("{packets:?}") };
        assert!(track.thread.is_none() && track.name.is_some());
    }
}
