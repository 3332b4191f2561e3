// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Calls out of their begins and ends, by thread.
//!
//! A function that begins ends those that a longjmp has left: whose frame is not above its own. An
//! end ends what was called within it as well. An end without a begin, of a function that was
//! running when the recording began, is none.

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It returned.
    Returned,
    /// It was left: by a longjmp, an exception, or since an event was lost.
    Left,
    /// It was not over when the recording was.
    Open,
}

/// A call that has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<F> {
    /// What was called.
    pub function: F,
    /// When, in ns.
    pub begin_ns: u64,
    /// Its frame address; 0: not known.
    pub frame: u64,
}

/// The calls of one thread that have not ended, the innermost last.
#[derive(Debug, Clone)]
pub struct Stack<F> {
    frames: Vec<Frame<F>>,
}

impl<F> Default for Stack<F> {
    fn default() -> Self {
        Stack { frames: Vec::new() }
    }
}

impl<F: Copy + PartialEq> Stack<F> {
    /// Take a call off that was left by the beginning of a function at `frame`.
    pub fn left_by(&mut self, frame: u64) -> Option<Frame<F>> {
        let left = |top: &Frame<F>| frame != 0 && top.frame != 0 && top.frame <= frame;
        self.frames.pop_if(|top| left(top))
    }

    /// A call begins.
    pub fn push(&mut self, frame: Frame<F>) {
        self.frames.push(frame);
    }

    /// How many calls the end of `function` ends; 0 if it did not begin.
    pub fn ended_by(&self, function: F) -> usize {
        self.frames.iter().rev().position(|frame| frame.function == function).map_or(0, |n| n + 1)
    }

    /// Take the innermost call off.
    pub fn pop(&mut self) -> Option<Frame<F>> {
        self.frames.pop()
    }

    /// Calls that have not ended.
    pub fn depth(&self) -> usize {
        self.frames.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(frames: &[(char, u64)]) -> Stack<char> {
        let mut stack = Stack::default();
        for &(function, frame) in frames {
            stack.push(Frame { function, begin_ns: 0, frame });
        }
        stack
    }

    #[test]
    fn a_begin_ends_what_a_longjmp_left() {
        // main called a, a called b; b jumped back into main, which calls c.
        let mut stack = stack(&[('m', 1000), ('a', 900), ('b', 800)]);
        assert_eq!(stack.left_by(900).map(|frame| frame.function), Some('b'));
        assert_eq!(stack.left_by(900).map(|frame| frame.function), Some('a'));
        assert_eq!(stack.left_by(900), None);
        assert_eq!(stack.depth(), 1);
        assert_eq!(stack.left_by(0), None);
    }

    #[test]
    fn an_end_ends_what_is_within() {
        let stack = stack(&[('a', 1000), ('a', 900), ('b', 800)]);
        assert_eq!(stack.ended_by('b'), 1);
        assert_eq!(stack.ended_by('a'), 2);
        assert_eq!(stack.ended_by('x'), 0);
    }
}
