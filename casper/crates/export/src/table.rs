// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An export as a folder of tables: one a type of event, and one of calls.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::Path;

use anyhow::Result;
use cowlab_casper::meta::{EventType, FieldKind as Kind, FieldType};
use cowlab_casper::read::Record;

use crate::place::OutputFolder;
use crate::{Call, Clocks, Ended, Function, Output, Process, Thread, Value};

/// What a column holds: one of a kind and size, or a list of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub kind: Kind,
    /// Bytes of a number.
    pub size: u32,
    /// Whether each entry is a list.
    pub list: bool,
}

/// A table that is being written.
pub trait TableWriter {
    /// Append a row: an entry for each column.
    fn row(&mut self, row: Vec<Option<Value>>) -> Result<()>;
    /// All rows were told.
    fn finish(self: Box<Self>) -> Result<()>;
}

/// How a format begins a table.
pub type Open = fn(File, &[Column]) -> Result<Box<dyn TableWriter>>;

/// A folder of tables that is being written.
pub struct Tables {
    folder: OutputFolder,
    clocks: Clocks,
    open: Opener,
    names: HashSet<String>,
    /// By type. Programs of one trace may use a number for several types.
    events: HashMap<u16, Vec<EventTable>>,
    calls: Option<Box<dyn TableWriter>>,
}

/// A table of events of one type, as far as that is known.
type EventTable = (Option<EventType>, Box<dyn TableWriter>);

/// A format: the ending of its files, and how it begins one.
#[derive(Clone, Copy)]
pub struct Opener {
    /// With its dot.
    pub ending: &'static str,
    /// How a table is begun.
    pub open: Open,
}

fn column(name: &str, kind: Kind, size: u32) -> Column {
    Column { name: name.to_owned(), kind, size, list: false }
}

/// When and where: the first columns of each table.
fn place_columns() -> Vec<Column> {
    vec![
        column("time_ns", Kind::Unsigned, 8),
        column("unix_ns", Kind::Signed, 8),
        column("process", Kind::Unsigned, 4),
        column("pid", Kind::Unsigned, 4),
        column("tid", Kind::Unsigned, 4),
        column("level", Kind::Unsigned, 4),
    ]
}

fn unsigned(value: impl Into<u64>) -> Option<Value> {
    Some(Value::Unsigned(value.into()))
}

impl Tables {
    /// Begin the folder.
    pub fn create(path: &Path, clocks: Clocks, open: Opener) -> Result<Tables> {
        Ok(Tables {
            folder: OutputFolder::create(path)?,
            clocks,
            open,
            names: HashSet::new(),
            events: HashMap::new(),
            calls: None,
        })
    }

    /// Begin a table. What a file name should not hold is replaced, and no two are alike.
    fn begin_table(&mut self, name: &str, columns: &[Column]) -> Result<Box<dyn TableWriter>> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let name: String = name.chars().take(100).map(|c| if plain(c) { c } else { '_' }).collect();
        let mut unique = name.clone();
        let mut number = 1;
        while !self.names.insert(unique.to_lowercase()) {
            number += 1;
            unique = format!("{name}~{number}");
        }
        let file = self.folder.file(&format!("{unique}{}", self.open.ending))?;
        (self.open.open)(file, columns)
    }

    fn place(&self, thread: &Thread, time_ns: u64) -> Vec<Option<Value>> {
        let since = i128::from(time_ns) - i128::from(self.clocks.monotonic_ns);
        let unix_ns = (i128::from(self.clocks.realtime_ns) + since) as i64;
        vec![
            unsigned(time_ns),
            Some(Value::Signed(unix_ns)),
            unsigned(thread.process),
            unsigned(thread.pid),
            unsigned(thread.tid),
            unsigned(thread.level),
        ]
    }
}

/// The columns of a type's own fields. Those that are named as the first ones are, or twice, are
/// told apart by a number.
fn field_columns(columns: &mut Vec<Column>, fields: &[FieldType]) {
    for field in fields {
        let mut name = field.name.clone();
        let mut number = 1;
        while columns.iter().any(|column| column.name.eq_ignore_ascii_case(&name)) {
            number += 1;
            name = format!("{}_{number}", field.name);
        }
        let list = field.count > 1 && field.kind != Kind::Text;
        columns.push(Column { name, kind: field.kind, size: field.size, list });
    }
}

/// The name of a record's type, or its number where it was never registered.
pub fn name_of<'r>(record: &Record<'r>) -> Cow<'r, str> {
    match record.schema {
        Some(schema) => Cow::Borrowed(&schema.name),
        None => Cow::Owned(format!("type-{}", record.event_type)),
    }
}

impl Output for Tables {
    fn process(&mut self, _: &Process) -> Result<()> {
        Ok(())
    }

    fn thread(&mut self, _: &Thread) -> Result<()> {
        Ok(())
    }

    fn begin(&mut self, _: &Thread, _: u64, _: &Function) -> Result<()> {
        Ok(())
    }

    fn end(&mut self, thread: &Thread, call: &Call) -> Result<()> {
        let mut row = self.place(thread, call.begin_ns);
        row.extend([
            unsigned(call.end_ns.saturating_sub(call.begin_ns)),
            Some(Value::Text(call.function.name.clone())),
            call.function.file.clone().map(Value::Text),
            call.function.line.and_then(unsigned),
            unsigned(call.depth),
            Some(Value::Text(
                match call.ended {
                    Ended::Returned => "returned",
                    Ended::Left => "longjmp",
                    Ended::CutByLoss => "lost",
                    Ended::Open => "open",
                }
                .to_owned(),
            )),
        ]);
        if self.calls.is_none() {
            let mut columns = place_columns();
            columns.extend([
                column("duration_ns", Kind::Unsigned, 8),
                column("function", Kind::Text, 0),
                column("file", Kind::Text, 0),
                column("line", Kind::Unsigned, 4),
                column("depth", Kind::Unsigned, 4),
                column("ended", Kind::Text, 0),
            ]);
            self.calls = Some(self.begin_table("calls", &columns)?);
        }
        self.calls.as_mut().map_or(Ok(()), |table| table.row(row))
    }

    fn event(&mut self, thread: &Thread, record: &Record) -> Result<()> {
        let mut row = self.place(thread, record.time_ns);
        row.push(Some(Value::Text(name_of(record).into_owned())));
        let fields = record.schema.map_or(&[][..], |schema| &schema.fields);
        row.extend(fields.iter().map(|field| field.value(record.bytes).map(|v| Value::from(&v))));
        let known = self.events.get(&record.event_type).and_then(|tables| {
            tables.iter().position(|(schema, _)| schema.as_ref() == record.schema)
        });
        let index = match known {
            Some(index) => index,
            None => {
                let mut columns = place_columns();
                columns.push(column("type", Kind::Text, 0));
                field_columns(&mut columns, fields);
                let table = self.begin_table(&format!("event.{}", name_of(record)), &columns)?;
                let tables = self.events.entry(record.event_type).or_default();
                tables.push((record.schema.cloned(), table));
                tables.len() - 1
            }
        };
        match self.events.get_mut(&record.event_type) {
            Some(tables) => tables[index].1.row(row),
            None => Ok(()),
        }
    }

    fn finish(self: Box<Self>) -> Result<()> {
        for table in self.events.into_values().flatten().map(|(_, table)| table).chain(self.calls) {
            table.finish()?;
        }
        self.folder.commit()
    }
}
