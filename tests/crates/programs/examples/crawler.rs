//! A crawler: fetches each page once, no more than so many at a time, and fewer from one host. Each fetch is
//! a green thread. The main one alone decides what comes next, so it needs no lock.
//!
//! ```sh
//! cargo run --example crawler                                  # two small sites of its own
//! cargo run --example crawler -- http://127.0.0.1:8000/ 200    # at most 200 pages
//! ```
//!
//! It does not read `robots.txt`, so use it for sites of your own. Needs the feature `tokio` of the runtime,
//! and the crate `reqwest`, with its feature `rustls-tls` for `https`.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use reqwest::{Client, Url, header, redirect};
use runtime::net::{Server, TcpListener, TcpStream};
use runtime::thread::JoinSet;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The most fetches at a time, overall and from one host.
const FETCHES: usize = 32;
const FETCHES_PER_HOST: usize = 4;
/// The most bytes of a page. The rest is not read.
const PAGE: usize = 1024 * 1024;
const PATIENCE: Duration = Duration::from_secs(10);

/// The pages that were found, in a queue for each host.
#[derive(Default)]
struct Frontier {
    found: HashSet<Url>,
    hosts: HashMap<String, Host>,
    /// The hosts with a page in the queue and fewer fetches than they may have.
    ready: VecDeque<String>,
}

#[derive(Default)]
struct Host {
    pages: VecDeque<Url>,
    fetches: usize,
}

impl Frontier {
    /// Adds a page that was not found before, unless there are `most` already.
    fn add(&mut self, mut url: Url, most: usize) {
        url.set_fragment(None);
        let known = !matches!(url.scheme(), "http" | "https") || self.found.contains(&url);
        if known || self.found.len() >= most {
            return;
        }
        self.found.insert(url.clone());
        let name = url.authority().to_string();
        self.hosts.entry(name.clone()).or_default().pages.push_back(url);
        self.make_ready(name);
    }

    fn make_ready(&mut self, name: String) {
        let host = &self.hosts[&name];
        if !host.pages.is_empty() && host.fetches < FETCHES_PER_HOST && !self.ready.contains(&name) {
            self.ready.push_back(name);
        }
    }

    /// Takes the next page. The hosts take turns.
    fn take(&mut self) -> Option<Url> {
        let name = self.ready.pop_front()?;
        let host = self.hosts.get_mut(&name)?;
        let url = host.pages.pop_front()?;
        host.fetches += 1;
        self.make_ready(name);
        Some(url)
    }

    /// Ends a fetch that `take` began.
    fn done(&mut self, url: &Url) {
        let name = url.authority().to_string();
        self.hosts.get_mut(&name).expect("the host of a fetch").fetches -= 1;
        self.make_ready(name);
    }
}

fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let (start, most) = (args.next(), args.next().map_or(Ok(1000), |text| text.parse())?);
    runtime::Builder::new().tokio(true).build_global()?;
    runtime::block_on(|| match start {
        Some(start) => crawl(start.parse()?, most).map(drop),
        None => demonstrate(),
    })
}

/// Fetches all pages that are linked from `start`, but at most `most`. Returns how many there were.
fn crawl(start: Url, most: usize) -> Result<usize, Failure> {
    let client = Client::builder().timeout(PATIENCE).redirect(redirect::Policy::none()).build()?;
    let (mut frontier, mut fetches) = (Frontier::default(), JoinSet::new());
    let mut failures = 0;
    frontier.add(start, most);
    loop {
        while fetches.len() < FETCHES {
            let Some(url) = frontier.take() else { break };
            let client = client.clone();
            fetches.spawn(move || (runtime::block_on(fetch(client, url.clone())), url));
        }
        let Some(fetched) = fetches.join_next() else { break };
        let (links, url) = fetched?;
        frontier.done(&url);
        match links {
            Ok(links) => {
                println!("{url}: {} links", links.len());
                links.into_iter().for_each(|link| frontier.add(link, most));
            }
            Err(error) => {
                println!("{url}: {error}");
                failures += 1;
            }
        }
    }
    println!("{} pages, {failures} failed", frontier.found.len());
    Ok(frontier.found.len())
}

/// Fetches a page, and returns the links in it. A redirection is a link, too: its host has a limit of its
/// own.
async fn fetch(client: Client, url: Url) -> Result<Vec<Url>, Failure> {
    let mut reply = client.get(url.clone()).send().await?.error_for_status()?;
    let header = |name| reply.headers().get(name).and_then(|value| value.to_str().ok());
    if let Some(target) = header(header::LOCATION) {
        return Ok(vec![url.join(target)?]);
    }
    if !header(header::CONTENT_TYPE).is_some_and(|kind| kind.starts_with("text/html")) {
        return Ok(Vec::new());
    }
    let mut page = Vec::new();
    while page.len() < PAGE
        && let Some(piece) = reply.chunk().await?
    {
        page.extend_from_slice(&piece);
    }
    Ok(links(&url, &String::from_utf8_lossy(&page)))
}

/// Returns the targets of all attributes `href`.
fn links(base: &Url, page: &str) -> Vec<Url> {
    let values = page.split("href=").skip(1).filter_map(|rest| {
        let quote = rest.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
        rest[1..].split_once(quote).map(|(value, _)| value.replace("&amp;", "&"))
    });
    values.filter_map(|value| base.join(&value).ok()).collect()
}

/// Crawls two sites of 100 pages with many links between them, and checks the limits.
fn demonstrate() -> Result<(), Failure> {
    let listeners = [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?];
    let addrs = [listeners[0].local_addr()?, listeners[1].local_addr()?];
    let links: String =
        (0..100).flat_map(|i| addrs.map(|addr| format!("<a href=\"http://{addr}/{i}#part\">\n"))).collect();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n";
    let reply = Arc::new(format!("{head}Content-Length: {}\r\n\r\n{links}", links.len()));
    let (requests, [first, second]) = (Arc::new(AtomicUsize::new(0)), listeners);
    let site = |listener| {
        let (reply, requests, now) = (reply.clone(), requests.clone(), AtomicUsize::new(0));
        Server::builder().start(listener, move |stream: TcpStream| {
            assert!(now.fetch_add(1, Ordering::SeqCst) < FETCHES_PER_HOST, "too many requests at a time");
            requests.fetch_add(1, Ordering::SeqCst);
            let head = BufReader::new(&stream).lines().map_while(Result::ok);
            head.take_while(|line| !line.is_empty()).for_each(drop);
            runtime::sleep(Duration::from_millis(5));
            // The client may begin its next request when it has the whole reply.
            now.fetch_sub(1, Ordering::SeqCst);
            let _ = (&stream).write_all(reply.as_bytes());
        })
    };
    let _sites = [site(first)?, site(second)?];
    let pages = crawl(format!("http://{}/0", addrs[0]).parse()?, 1000)?;
    let requests = requests.load(Ordering::SeqCst);
    if (pages, requests) == (200, 200) { Ok(()) } else { Err(format!("{requests} requests").into()) }
}
