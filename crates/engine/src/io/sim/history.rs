//! The operations issued since the last sync, as a list that snapshots share.
//!
//! Each operation points at the one before it, so adding one, forgetting all and cloning the whole are each
//! one pointer's work, and the thousands of images of a trace share their histories.

use std::fmt;
use std::sync::Arc;

/// A persistent list of operations; see the module's documentation.
pub(super) struct History<T> {
    newest: Option<Arc<Node<T>>>,
    len: usize,
}

struct Node<T> {
    value: T,
    older: Option<Arc<Node<T>>>,
}

impl<T> History<T> {
    pub(super) fn push(&mut self, value: T) {
        let older = self.newest.take();
        self.newest = Some(Arc::new(Node { value, older }));
        self.len += 1;
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// All operations in the order in which they were issued.
    pub(super) fn oldest_first(&self) -> Vec<&T> {
        let mut values = Vec::with_capacity(self.len);
        let mut cursor = self.newest.as_deref();
        while let Some(node) = cursor {
            values.push(&node.value);
            cursor = node.older.as_deref();
        }
        values.reverse();
        values
    }
}

impl<T> Default for History<T> {
    fn default() -> Self {
        Self { newest: None, len: 0 }
    }
}

impl<T> Clone for History<T> {
    fn clone(&self) -> Self {
        Self { newest: self.newest.clone(), len: self.len }
    }
}

impl<T> fmt::Debug for History<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "History({})", self.len)
    }
}

impl<T> Drop for History<T> {
    /// Frees node by node: the compiler's own drop would recurse once per operation and overflow the stack.
    fn drop(&mut self) {
        let mut cursor = self.newest.take();
        while let Some(node) = cursor {
            cursor = Arc::into_inner(node).and_then(|mut node| node.older.take());
        }
    }
}
