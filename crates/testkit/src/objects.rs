//! Objects of a synthetic profile.

use convoy_profile::{Memory, Object, ObjectIx, ObjectKind, StackIx, ThreadIx};

use crate::ProfileBuilder;

/// An object in the making: ends with [`ObjectSpec::id`].
#[derive(Debug)]
pub struct ObjectSpec<'a> {
    builder: &'a mut ProfileBuilder,
    ix: ObjectIx,
}

macro_rules! statics {
    ($($(#[$doc:meta])* $name:ident $kind:ident)*) => {
        impl ProfileBuilder {
            $($(#[$doc])*
            pub fn $name(&mut self, symbol: &str) -> ObjectIx {
                self.object(ObjectKind::$kind).symbol(symbol).id()
            })*
        }
    };
}

statics! {
    /// A mutex in the variable `symbol`.
    mutex Mutex
    /// A rwlock in the variable `symbol`.
    rwlock RwLock
    /// A spin lock in the variable `symbol`.
    spin Spin
    /// A condition variable in the variable `symbol`.
    cond Cond
    /// A barrier in the variable `symbol`.
    barrier Barrier
    /// A semaphore in the variable `symbol`.
    sem Sem
    /// A futex word in the variable `symbol`.
    futex Futex
}

impl ProfileBuilder {
    /// An object of any kind, on the heap unless said otherwise.
    pub fn object(&mut self, kind: ObjectKind) -> ObjectSpec<'_> {
        let addr = self.heap_addr();
        let objects = &mut self.raw().objects;
        let ix = objects.len() as ObjectIx;
        objects.push(Object {
            addr,
            kind,
            memory: Memory::Heap,
            ..Object::default()
        });
        ObjectSpec { builder: self, ix }
    }

    /// What is joined when somebody waits for the end of `thread`: its `pthread_t`, which lies in its
    /// stack mapping.
    pub fn join_of(&mut self, thread: ThreadIx) -> ObjectIx {
        let addr = self.raw().threads[thread as usize].stack_hi - 0x900;
        self.object(ObjectKind::Thread).addr(addr).id()
    }
}

impl ObjectSpec<'_> {
    fn object(&mut self) -> &mut Object {
        let ix = self.ix as usize;
        &mut self.builder.raw().objects[ix]
    }

    /// At this address.
    pub fn addr(mut self, addr: u64) -> Self {
        self.object().addr = addr;
        self
    }

    /// A static variable of the executable.
    pub fn symbol(mut self, symbol: &str) -> Self {
        let addr = 0x5500_0008_0000 + u64::from(self.ix) * 0x40;
        let object = self.object();
        object.addr = addr;
        object.symbol = Some(symbol.into());
        object.module = Some(0);
        object.memory = Memory::Static;
        self
    }

    /// Initialised by a call here.
    pub fn init(mut self, stack: StackIx) -> Self {
        let object = self.object();
        object.init_stack = stack;
        object.lives = object.lives.max(1);
        self
    }

    /// Of a semaphore: what it began with, if it was initialised by a call.
    pub fn tokens(mut self, tokens: u32) -> Self {
        self.object().attr = tokens;
        self
    }

    /// Initialised this many times.
    pub fn lives(mut self, lives: u32) -> Self {
        self.object().lives = lives;
        self
    }

    /// On the stack of this thread.
    pub fn on_stack_of(mut self, thread: ThreadIx) -> Self {
        self.object().memory = Memory::Stack(thread);
        self
    }

    /// Its index.
    pub fn id(self) -> ObjectIx {
        self.ix
    }
}
