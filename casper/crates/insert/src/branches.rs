// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `#if` and its kin: which token streams can a compiler see?
//!
//! Nothing is evaluated but `#if 0`, `#if 1` and `__cplusplus`. Instead the source is read in
//! several ways (variants), each a consistent choice of branches, until each branch was read in one
//! of them. What is a function in one variant and something else in another is not sure.

use std::collections::HashMap;

use crate::Error;
use crate::lex::{Directive, Item, Kind, Lexed, Token};

/// At most this many ways to read a file; branches that none of them reaches are left alone.
const VARIANTS_MAX: usize = 200;

/// Compilers allow 63 at least; without a limit hostile input would take quadratic time.
const NESTING_MAX: usize = 256;
/// Of one `#if`, for the same reason.
const BRANCHES_MAX: usize = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    Known(bool),
    /// An atom, and the value that it must have.
    Atom(usize, bool),
}

#[derive(Debug)]
struct Branch {
    /// Group and place in it, of the branch that this one is in.
    parent: Option<(usize, usize)>,
    condition: Condition,
    line: u32,
    done: bool,
}

#[derive(Debug)]
pub struct Branches {
    groups: Vec<Vec<Branch>>,
    atoms: HashMap<Vec<u8>, usize>,
}

/// One way to read a source.
#[derive(Debug, Default)]
pub struct Variant {
    pub tokens: Vec<usize>,
    /// Names that become function-like macros (true) or cease to be (false), and from which place
    /// in `tokens` on.
    macros: HashMap<Vec<u8>, Vec<(usize, bool)>>,
}

impl Variant {
    /// Whether a name is a function-like macro of this file at a place.
    pub fn is_macro(&self, name: &[u8], place: usize) -> bool {
        let changes = self.macros.get(name).map_or(&[][..], Vec::as_slice);
        changes.iter().rev().find(|&&(from, _)| from <= place).is_some_and(|&(_, is)| is)
    }

    fn change(&mut self, lexed: &Lexed, directive: &Directive, defines: bool) {
        let [_, name, rest @ ..] = &directive.tokens[..] else { return };
        let callable = rest
            .first()
            .is_some_and(|next| next.start == name.end && next.kind == Kind::Punct("("));
        let changes = self.macros.entry(lexed.text(name).into_owned()).or_default();
        changes.push((self.tokens.len(), defines && callable));
    }
}

fn directive_name(lexed: &Lexed, directive: &Directive) -> String {
    directive.tokens.first().map(|token| lexed.name(token)).unwrap_or_default()
}

impl Branches {
    /// Find the groups. Fails where an `#if` has no `#endif` or the reverse.
    pub fn new(lexed: &Lexed) -> Result<Branches, Error> {
        let mut branches = Branches { groups: vec![], atoms: HashMap::new() };
        let mut open: Vec<(usize, u32)> = Vec::new();
        for item in &lexed.items {
            let directive = match *item {
                Item::Directive(index) => &lexed.directives[index],
                Item::Token(index) if lexed.tokens[index].kind == Kind::Bad => {
                    let line = lexed.tokens[index].line;
                    let Some(&(group, _)) = open.last() else {
                        let what = "a quote without its end, or a byte that C does not know";
                        return Err(Error::Syntax { line, what: what.into() });
                    };
                    // Text that is not C: the compiler cannot be meant to see it.
                    let branch = branches.groups[group].last_mut();
                    branch
                        .into_iter()
                        .for_each(|branch| branch.condition = Condition::Known(false));
                    continue;
                }
                Item::Token(_) => continue,
            };
            let name = directive_name(lexed, directive);
            let line = directive.line;
            let misplaced = || Error::Syntax { line, what: format!("#{name} without #if") };
            match name.as_str() {
                "if" | "ifdef" | "ifndef" => {
                    let parent =
                        open.last().map(|&(group, _)| (group, branches.groups[group].len() - 1));
                    let condition = branches.condition(lexed, &name, &directive.tokens[1..]);
                    open.push((branches.groups.len(), line));
                    if open.len() > NESTING_MAX {
                        let what = format!("#if nested deeper than {NESTING_MAX}");
                        return Err(Error::Syntax { line, what });
                    }
                    branches.groups.push(vec![Branch { parent, condition, line, done: false }]);
                }
                "elif" | "elifdef" | "elifndef" | "else" => {
                    let &(group, _) = open.last().ok_or_else(misplaced)?;
                    let parent = branches.groups[group][0].parent;
                    let condition = branches.condition(lexed, &name, &directive.tokens[1..]);
                    branches.groups[group].push(Branch { parent, condition, line, done: false });
                    if branches.groups[group].len() > BRANCHES_MAX {
                        let what = format!("#if with more than {BRANCHES_MAX} branches");
                        return Err(Error::Syntax { line, what });
                    }
                }
                "endif" => {
                    let (group, _) = open.pop().ok_or_else(misplaced)?;
                    // What a compiler sees where no condition holds.
                    let (parent, condition) =
                        (branches.groups[group][0].parent, Condition::Known(true));
                    branches.groups[group].push(Branch { parent, condition, line, done: false });
                }
                _ => {}
            }
        }
        match open.first() {
            Some(&(_, line)) => Err(Error::Syntax { line, what: "#if without #endif".into() }),
            None => Ok(branches),
        }
    }

    fn atom(&mut self, text: Vec<u8>) -> usize {
        let next = self.atoms.len();
        *self.atoms.entry(text).or_insert(next)
    }

    fn defined(&mut self, lexed: &Lexed, name: Option<&Token>, wanted: bool) -> Condition {
        let name = name.map(|token| lexed.text(token).into_owned()).unwrap_or_default();
        if name == b"__cplusplus" {
            return Condition::Known(!wanted);
        }
        Condition::Atom(self.atom([b"defined ".as_slice(), &name].concat()), wanted)
    }

    fn condition(&mut self, lexed: &Lexed, directive: &str, tokens: &[Token]) -> Condition {
        match directive {
            "else" => return Condition::Known(true),
            "ifdef" | "elifdef" => return self.defined(lexed, tokens.first(), true),
            "ifndef" | "elifndef" => return self.defined(lexed, tokens.first(), false),
            _ => {}
        }
        let words: Vec<Vec<u8>> =
            tokens.iter().map(|token| lexed.text(token).into_owned()).collect();
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        match words[..] {
            [b"0"] => Condition::Known(false),
            [b"1"] => Condition::Known(true),
            [b"defined", b"(", _, b")"] => self.defined(lexed, tokens.get(2), true),
            [b"defined", _] => self.defined(lexed, tokens.get(1), true),
            [b"!", b"defined", b"(", _, b")"] => self.defined(lexed, tokens.get(3), false),
            [b"!", b"defined", _] => self.defined(lexed, tokens.get(2), false),
            [b"!", _] => Condition::Atom(self.atom(words[1].to_vec()), false),
            // C++ is not ours to read.
            [b"__cplusplus", ..] => Condition::Known(false),
            [b"defined", b"(", b"__cplusplus", b")", b"&&", ..] => Condition::Known(false),
            [b"defined", b"__cplusplus", b"&&", ..] => Condition::Known(false),
            _ => Condition::Atom(self.atom(words.join(&b" "[..])), true),
        }
    }

    /// The variants, and the lines of branches that none of them reaches.
    pub fn variants(&mut self, lexed: &Lexed) -> (Vec<Variant>, Vec<u32>) {
        let mut variants = Vec::new();
        let mut missed = Vec::new();
        for group in &mut self.groups {
            for branch in group {
                branch.done |= branch.condition == Condition::Known(false);
            }
        }
        // What is inside a branch that no compiler sees is not seen either.
        for group in 0..self.groups.len() {
            for place in 0..self.groups[group].len() {
                if self.path(group, place).is_none() {
                    self.groups[group][place].done = true;
                }
            }
        }
        let mut target = None;
        loop {
            let fixed = match target {
                None => HashMap::new(),
                Some((group, place)) => self.path(group, place).unwrap_or_default(),
            };
            variants.push(self.read(lexed, &fixed));
            // What its own conditions, or a #define on the way, keep from being read.
            if let Some((group, place)) = target {
                let branch: &mut Branch = &mut self.groups[group][place];
                if !std::mem::replace(&mut branch.done, true) {
                    missed.push(branch.line);
                }
            }
            target = self.groups.iter().enumerate().find_map(|(group, branches)| {
                branches.iter().position(|branch| !branch.done).map(|place| (group, place))
            });
            if target.is_none() {
                break;
            }
            if variants.len() == VARIANTS_MAX {
                let left = self.groups.iter().flatten().filter(|branch| !branch.done);
                missed.extend(left.map(|branch| branch.line));
                break;
            }
        }
        missed.sort_unstable();
        missed.dedup();
        (variants, missed)
    }

    /// What must hold for a branch to be read, its surroundings included. None: it never is.
    fn path(&self, group: usize, place: usize) -> Option<HashMap<usize, bool>> {
        let mut wanted = HashMap::new();
        let mut at = Some((group, place));
        while let Some((group, place)) = at {
            if !self.want(group, place, &mut wanted) {
                return None;
            }
            at = self.groups[group][0].parent;
        }
        Some(wanted)
    }

    /// Add what a branch of a group needs to `wanted`. False where that contradicts it.
    fn want(&self, group: usize, place: usize, wanted: &mut HashMap<usize, bool>) -> bool {
        let mut added = Vec::new();
        for index in 0..=place {
            let holds = index == place;
            let fits = match self.groups[group][index].condition {
                Condition::Known(value) => value == holds,
                Condition::Atom(atom, value) => {
                    let value = value == holds;
                    *wanted.entry(atom).or_insert_with(|| {
                        added.push(atom);
                        value
                    }) == value
                }
            };
            if !fits {
                added.iter().for_each(|atom| {
                    wanted.remove(atom);
                });
                return false;
            }
        }
        true
    }

    /// The branch of a group to read: one that was not read yet, else the first that can be.
    fn choose(
        &self,
        group: usize,
        waiting: &[Vec<bool>],
        atoms: &mut HashMap<usize, bool>,
    ) -> usize {
        let count = self.groups[group].len();
        let mut unread = (0..count).filter(|&place| waiting[group][place]);
        unread
            .find(|&place| self.want(group, place, atoms))
            .or_else(|| (0..count).find(|&place| self.want(group, place, atoms)))
            .unwrap_or(count - 1)
    }

    /// Which branches still have something unread in them.
    fn waiting(&self) -> Vec<Vec<bool>> {
        let mut waiting: Vec<Vec<bool>> = self
            .groups
            .iter()
            .map(|group| group.iter().map(|branch| !branch.done).collect())
            .collect();
        // Inner groups come after outer ones.
        for group in (0..self.groups.len()).rev() {
            if let (true, Some((outer, place))) =
                (waiting[group].contains(&true), self.groups[group][0].parent)
            {
                waiting[outer][place] = true;
            }
        }
        waiting
    }

    /// Read the source where `fixed` holds throughout, whatever is defined on the way.
    fn read(&mut self, lexed: &Lexed, fixed: &HashMap<usize, bool>) -> Variant {
        let mut atoms = fixed.clone();
        let waiting = self.waiting();
        let mut variant = Variant::default();
        // Group, the branch chosen (none where the surroundings are not read), the current one.
        let mut open: Vec<(usize, Option<usize>, usize)> = Vec::new();
        let mut next_group = 0;
        for item in &lexed.items {
            let live = open.last().is_none_or(|&(_, chosen, now)| chosen == Some(now));
            let directive = match *item {
                Item::Token(token) => {
                    if live {
                        variant.tokens.push(token);
                    }
                    continue;
                }
                Item::Directive(directive) => &lexed.directives[directive],
            };
            let name = directive_name(lexed, directive);
            match name.as_str() {
                "if" | "ifdef" | "ifndef" => {
                    let group = next_group;
                    next_group += 1;
                    let chosen = live.then(|| self.choose(group, &waiting, &mut atoms));
                    if let Some(place) = chosen {
                        self.groups[group][place].done = true;
                    }
                    open.push((group, chosen, 0));
                }
                "elif" | "elifdef" | "elifndef" | "else" => {
                    if let Some((_, _, now)) = open.last_mut() {
                        *now += 1;
                    }
                }
                "endif" => {
                    open.pop();
                }
                "define" | "undef" if live => {
                    variant.change(lexed, directive, name == "define");
                    if let Some(token) = directive.tokens.get(1) {
                        let text = [b"defined ".as_slice(), &lexed.text(token)].concat();
                        let atom = self.atoms.get(&text).filter(|atom| !fixed.contains_key(atom));
                        if let Some(&atom) = atom {
                            atoms.insert(atom, name == "define");
                        }
                    }
                }
                _ => {}
            }
        }
        variant
    }
}
