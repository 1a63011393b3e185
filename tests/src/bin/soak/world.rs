//! The world: what all actors of a round share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use runtime::{JoinHandle, Runtime};
use tests::Drops;

use crate::actor::{Actor, Unborn, by_itself};
use crate::desk::Desk;
use crate::echo;
use crate::mode::Mode;
use crate::ring::Ring;
use crate::site::Site;
use crate::stale::Stale;

/// Above this number of green threads, operations spawn no groups of threads.
const MOST: u64 = 3000;

/// The shared state of a round.
#[derive(Debug)]
pub(crate) struct World {
    /// The runtime under test: runs the workers and most of their green threads.
    pub(crate) home: Arc<Site>,
    /// Runs the green threads that plain OS threads spawn.
    pub(crate) default: Arc<Site>,
    pub(crate) procs: usize,
    pub(crate) mode: &'static Mode,
    /// Tokens that must be dropped exactly once.
    pub(crate) drops: Drops,
    pub(crate) desk: Desk,
    pub(crate) ring: Ring,
    pub(crate) stale: Stale,
    pub(crate) echo: SocketAddr,
    /// True while an actor changes the number of Ps of `home`.
    pub(crate) resizing: AtomicBool,
    /// Counts connections that the system refused because no port was free.
    pub(crate) refused: AtomicU64,
}

impl World {
    pub(crate) fn is_crowded(&self) -> bool {
        self.home.live() + self.default.live() > MOST
    }
}

/// The threads that serve all actors: desk, ring and echo server.
pub(crate) struct Crew {
    world: Arc<World>,
    green: Vec<JoinHandle<()>>,
    plain: Vec<std::thread::JoinHandle<()>>,
    echo: JoinHandle<()>,
}

impl Crew {
    /// Makes the world and starts the threads that serve it.
    pub(crate) fn start(runtime: &Runtime, home: Arc<Site>, default: Arc<Site>, procs: usize) -> Crew {
        let (listener, echo) = echo::listen(runtime, &home);
        let mode = home.mode;
        let world = Arc::new(World {
            home,
            default,
            procs,
            mode,
            drops: Drops::default(),
            desk: Desk::new(),
            ring: Ring::new(),
            stale: Stale::default(),
            echo,
            resizing: AtomicBool::new(false),
            refused: AtomicU64::new(0),
        });
        let echo = echo::start(&world, listener);
        let mut crew = Crew { world: world.clone(), green: Vec::new(), plain: Vec::new(), echo };
        for i in 0..Desk::CLERKS {
            crew.member(i, move |actor| actor.world.clone().desk.serve(i, actor));
        }
        for i in 0..Ring::MEMBERS {
            crew.member(i, move |actor| actor.world.clone().ring.pass_on(i, actor));
        }
        crew
    }

    /// Starts member `i`: the first on a plain OS thread, the second in the default runtime, the others in
    /// `home`.
    fn member(&mut self, i: usize, work: impl FnOnce(&mut Actor) + Send + 'static) {
        let (world, seed) = (self.world.clone(), i as u64);
        if i == 0 {
            let plain = std::thread::Builder::new().name("soak-crew".into());
            let member = plain.spawn(move || work(&mut Actor::plain(&world, seed)));
            return self.plain.push(member.expect("a thread"));
        }
        let site = if i == 1 { &world.default } else { &world.home };
        let unborn = Unborn::new(&world, site, seed);
        self.green.push(site.spawn(move || work(&mut unborn.begin())));
    }

    pub(crate) fn world(&self) -> &Arc<World> {
        &self.world
    }

    /// Ends all members after the last actor has ended, and checks that nothing was lost.
    pub(crate) fn end(self) -> Arc<World> {
        self.world.desk.stop();
        self.world.ring.stop();
        self.green.into_iter().for_each(|member| by_itself(member.join()));
        self.plain.into_iter().for_each(|member| by_itself(member.join()));
        self.echo.cancel();
        assert!(self.echo.join().is_err_and(|end| end.is::<runtime::thread::Cancelled>()));
        self.world.stale.forget();
        self.world.desk.comes_out_even();
        self.world.ring.comes_out_even();
        self.world
    }
}

/// Counts a connection that the system refused because no port was free.
pub(crate) fn count_refused(world: &World) {
    world.refused.fetch_add(1, SeqCst);
}
