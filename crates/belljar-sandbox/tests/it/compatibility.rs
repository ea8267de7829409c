//! Real programs work behind the walls: what the data stack, the standard library and child
//! programs ask of the kernel is allowed. Each piece of code asserts its own results.

use belljar_sandbox::Cell;

use crate::support::{data_session, seconds};

/// Runs each in one session, one after another, and tells of all that fail.
async fn all_work(pieces: &[&str]) {
    let session = data_session().await;
    let mut failed = Vec::new();
    for code in pieces {
        // On a machine of any speed.
        let cell = Cell {
            wall_time: Some(seconds(100.0)),
            ..Cell::from(*code)
        };
        let outcome = match session.run(cell).await {
            Ok(outcome) => outcome,
            Err(error) => {
                failed.push(error.to_string());
                break;
            }
        };
        if !outcome.is_success() {
            let traceback = outcome.exception.map(|exception| exception.traceback);
            failed.push(format!(
                "{:?}\n{}",
                outcome.cause,
                traceback.unwrap_or_default()
            ));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers() {
    all_work(&[
        r"
import numpy as np
a = np.random.default_rng(1).random((300, 300))
q, r = np.linalg.qr(a)
assert np.allclose(q @ r, a)
u, s, v = np.linalg.svd(a)
assert np.allclose((u * s) @ v, a)
assert np.allclose(a @ np.linalg.solve(a, np.ones(300)), 1)
assert np.allclose(np.fft.ifft(np.fft.fft(a)).real, a)
values, vectors = np.linalg.eigh(a + a.T)
",
        r"
import numpy as np
m = np.memmap('m.dat', dtype='f8', mode='w+', shape=(1000, 100))
m[:] = 3
m.flush()
assert np.memmap('m.dat', dtype='f8', mode='r', shape=(1000, 100)).sum() == 300_000
np.savez_compressed('a.npz', a=np.arange(10), b=np.eye(3))
assert np.load('a.npz')['b'].trace() == 3
np.save('a.npy', np.arange(5))
assert np.load('a.npy', mmap_mode='r')[4] == 4
np.savetxt('a.txt', np.eye(2))
assert np.loadtxt('a.txt').shape == (2, 2)
",
        r"
import scipy.integrate, scipy.linalg, scipy.optimize, scipy.sparse, scipy.sparse.linalg, scipy.stats, scipy.signal, scipy.spatial, scipy.interpolate
import numpy as np
assert abs(scipy.integrate.quad(np.sin, 0, np.pi)[0] - 2) < 1e-9
assert scipy.optimize.minimize(lambda x: ((x - 3) ** 2).sum(), np.zeros(4)).success
assert scipy.optimize.linprog([1, 1], A_ub=[[-1, 0]], b_ub=[-1]).success
assert scipy.sparse.linalg.eigsh(scipy.sparse.diags([range(1, 101)], [0]).tocsc().astype(float), 3)[0].max() > 99
assert scipy.stats.ttest_ind([1, 2, 3], [2, 3, 4]).pvalue > 0
assert scipy.spatial.cKDTree(np.eye(5)).query(np.zeros(5))[0] == 1
assert scipy.signal.butter(3, 0.1)[0].size == 4
",
        r"
from threadpoolctl import threadpool_limits, threadpool_info
import numpy as np
assert threadpool_info()
with threadpool_limits(2):
    assert (np.ones((500, 500)) @ np.ones((500, 500)))[0, 0] == 500
",
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tables() {
    all_work(&[
        r"
import numpy as np, pandas as pd
frame = pd.DataFrame({'k': list('abca') * 50, 'v': np.arange(200.0), 't': pd.date_range('2024-01-01', periods=200, freq='h', tz='Europe/Vienna')})
frame.to_csv('f.csv', index=False)
assert len(pd.read_csv('f.csv', parse_dates=['t'])) == 200
assert pd.read_csv('f.csv', chunksize=50).get_chunk().shape == (50, 3)
frame.to_json('f.json', orient='records', lines=True, date_format='iso')
assert pd.read_json('f.json', lines=True).v.sum() == frame.v.sum()
frame.to_csv('f.csv.gz'); frame.to_csv('f.csv.xz'); frame.to_csv('f.csv.bz2'); frame.to_csv('f.zip')
assert len(pd.read_csv('f.csv.xz')) == len(pd.read_csv('f.zip')) == 200
assert frame.groupby('k').v.agg(['sum', 'mean']).shape == (3, 2)
assert frame.set_index('t').v.resample('1D').sum().sum() == frame.v.sum()
assert frame.pivot_table(index='k', values='v', aggfunc='median').shape == (3, 1)
assert frame.merge(frame, on='k').shape[0] > 200
frame.to_pickle('f.pkl')
assert pd.read_pickle('f.pkl').equals(frame)
assert pd.Timestamp.now().year > 2000
",
        r"
import pandas as pd, sqlite3
pd.DataFrame({'a': [1, 2]}).to_excel('f.xlsx', index=False)
assert pd.read_excel('f.xlsx').a.sum() == 3
with sqlite3.connect('f.db') as database:
    pd.DataFrame({'a': [1, 2]}).to_sql('t', database)
    assert pd.read_sql('select * from t', database).a.sum() == 3
assert '<table' in pd.DataFrame({'a': [1]}).to_html()
",
        r"
import sqlite3, threading
memory = sqlite3.connect(':memory:')
memory.execute('create table t (a)')
file = sqlite3.connect('wal.db')
assert file.execute('pragma journal_mode=wal').fetchone() == ('wal',)
file.execute('create table t (a)')
file.executemany('insert into t values (?)', [(i,) for i in range(1000)])
file.commit()
other = sqlite3.connect('wal.db')
assert other.execute('select sum(a) from t').fetchone() == (499500,)
file.execute('pragma wal_checkpoint(truncate)')
file.execute('vacuum')
other.backup(memory)
assert memory.execute('select count(*) from t').fetchone() == (1000,)
",
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_and_pictures() {
    all_work(&[
        r"
import matplotlib.pyplot as plt, numpy as np, os
figure, axes = plt.subplots(1, 2)
axes[0].plot(np.arange(10)); axes[0].set_title('α $x^2$ 中文'); axes[1].imshow(np.eye(10))
for kind in ('png', 'svg', 'pdf', 'jpg', 'eps', 'tiff', 'webp'):
    figure.savefig('f.' + kind)
    assert os.path.getsize('f.' + kind) > 1000, kind
plt.close('all')
",
        r"
import matplotlib.animation, matplotlib.pyplot as plt
figure, axes = plt.subplots()
line, = axes.plot([], [])
animation = matplotlib.animation.FuncAnimation(figure, lambda i: line.set_data([0, i], [0, i]) or (line,), frames=3)
animation.save('a.gif', writer='pillow')
plt.close('all')
",
        r"
import io
from PIL import Image, ImageDraw, ImageFilter, ImageFont
image = Image.new('RGB', (200, 100), 'white')
ImageDraw.Draw(image).text((10, 10), 'Hello', fill='black', font=ImageFont.load_default())
for kind in ('PNG', 'JPEG', 'GIF', 'WEBP', 'TIFF', 'BMP'):
    out = io.BytesIO()
    image.filter(ImageFilter.BLUR).save(out, kind)
    assert Image.open(io.BytesIO(out.getvalue())).size == (200, 100)
",
        r"
import networkx as nx
graph = nx.karate_club_graph()
assert nx.is_connected(graph) and len(nx.pagerank(graph)) == 34
",
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn learning() {
    all_work(&[
        r"
import warnings
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
x, y = make_classification(300, random_state=1)
with warnings.catch_warnings():
    warnings.simplefilter('error')
    assert RandomForestClassifier(20, n_jobs=2).fit(x, y).score(x, y) > 0.9
    assert cross_val_score(make_pipeline(StandardScaler(), LogisticRegression()), x, y, n_jobs=2).mean() > 0.7
    assert HistGradientBoostingClassifier(max_iter=20).fit(x, y).score(x, y) > 0.9
",
        r"
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.svm import SVC
import numpy as np
x = np.random.default_rng(1).random((200, 5))
assert set(KMeans(3, n_init=2).fit_predict(x)) == {0, 1, 2}
assert PCA(2).fit_transform(x).shape == (200, 2)
SVC().fit(x, x[:, 0] > 0.5)
",
        r"
import joblib, os
square = lambda x: x * x
for backend in ('loky', 'threading', 'multiprocessing'):
    assert sum(joblib.Parallel(n_jobs=2, backend=backend)(joblib.delayed(pow)(i, 2) for i in range(20))) == 2470, backend
memory = joblib.Memory('cache', verbose=0)
assert memory.cache(square)(4) == memory.cache(square)(4) == 16
joblib.dump({'a': [1]}, 'a.joblib', compress=3)
assert joblib.load('a.joblib') == {'a': [1]}
import numpy as np
big = np.ones(2_000_000)
assert joblib.Parallel(n_jobs=2)(joblib.delayed(np.sum)(big) for _ in range(2)) == [2_000_000.0] * 2
",
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn processes() {
    all_work(&[
        r"
import subprocess, sys
assert 'python' in subprocess.run(['ls', '-la', '/usr/bin'], capture_output=True, text=True, check=True).stdout
assert subprocess.check_output('printf \'b\\na\\nb\\n\' | sort | uniq -c | wc -l', shell=True, text=True).strip() == '2'
assert subprocess.check_output([sys.executable, '-c', 'import numpy; print(numpy.ones(3).sum())'], text=True) == '3.0\n'
assert subprocess.run('exit 3', shell=True).returncode == 3
try: subprocess.run(['sleep', '10'], timeout=0.1)
except subprocess.TimeoutExpired: pass
process = subprocess.Popen(['cat'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
assert process.communicate(b'x' * 1_000_000)[0] == b'x' * 1_000_000
assert subprocess.run(['sh', '-c', 'kill -TERM $$']).returncode == -15
assert subprocess.getoutput('echo a | sed s/a/b/ | awk \'{print $1}\' | tr b c | grep c') == 'c'
assert subprocess.getoutput('find /usr/bin -maxdepth 1 -name env | xargs -n1 basename') == 'env'
assert subprocess.getoutput('cp -a /etc/passwd p && mv p q && chmod 600 q && touch q && ln -s q r && stat -c %a q && rm q r') == '600'
assert subprocess.getoutput('mkdir -p d/e && tar czf d.tgz d && tar tzf d.tgz | wc -l').strip() == '2'
assert subprocess.getoutput('date +%Y && uname -s && id -un && nproc && df -P /workspace | wc -l').split()[1:3] == ['Linux', 'belljar']
",
        r"
import subprocess
script = '''
set -e
x=$(echo $((6 * 7)))
trap 'echo ended' EXIT
(sleep 0.01 &) ; wait
for i in 1 2 3; do echo $i; done | { read a; read b; echo $x $b; }
cat <<END
here
END
diff <(echo a) <(echo a)
'''
assert subprocess.check_output(['bash', '-c', script], text=True) == '42 2\nhere\nended\n'
",
        r"
import multiprocessing, operator
from multiprocessing import shared_memory
for method in ('fork', 'spawn', 'forkserver'):
    context = multiprocessing.get_context(method)
    with context.Pool(2) as pool:
        assert pool.map(abs, range(-20, 0)) == list(range(20, 0, -1)), method
        assert pool.starmap_async(operator.add, [(1, 2)] * 5).get(10) == [3] * 5
    queue, event, lock = context.Queue(), context.Event(), context.Lock()
    process = context.Process(target=queue.put, args=('done',))
    process.start()
    assert queue.get(timeout=10) == 'done'
    process.join()
    assert process.exitcode == 0
    with lock, context.Semaphore(2): pass
with multiprocessing.Manager() as manager:
    shared = manager.dict(a=1)
    assert shared['a'] == 1
block = shared_memory.SharedMemory(create=True, size=100_000)
block.buf[:3] = b'abc'
other = shared_memory.SharedMemory(block.name)
assert bytes(other.buf[:3]) == b'abc'
other.close(); block.close(); block.unlink()
value = multiprocessing.Value('i', 3)
assert multiprocessing.cpu_count() >= 1
one, two = multiprocessing.Pipe()
one.send([1]); assert two.recv() == [1]
",
        r"
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
import math, threading, queue
with ProcessPoolExecutor(2) as pool:
    assert list(pool.map(math.factorial, range(5))) == [1, 1, 2, 6, 24]
with ThreadPoolExecutor(8) as pool:
    assert sum(f.result() for f in as_completed([pool.submit(pow, i, 2) for i in range(50)])) == 40425
barrier, local, out = threading.Barrier(4), threading.local(), queue.Queue()
threads = [threading.Thread(target=lambda: (barrier.wait(5), out.put(threading.get_native_id()))) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len({out.get() for _ in range(4)}) == 4
timer = threading.Timer(0.01, lambda: None); timer.start(); timer.join()
",
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn networks_of_its_own() {
    all_work(&[
        r"
import asyncio, sys
async def main():
    async def serve(reader, writer):
        writer.write((await reader.readline()).upper()); await writer.drain(); writer.close()
    for start, connect in (
        (lambda: asyncio.start_server(serve, '127.0.0.1', 0), lambda s: asyncio.open_connection(*s.sockets[0].getsockname()[:2])),
        (lambda: asyncio.start_server(serve, '::1', 0), lambda s: asyncio.open_connection(*s.sockets[0].getsockname()[:2])),
        (lambda: asyncio.start_unix_server(serve, 'u.sock'), lambda s: asyncio.open_unix_connection('u.sock')),
    ):
        server = await start()
        reader, writer = await connect(server)
        writer.write(b'hello\n')
        assert await reader.read() == b'HELLO\n'
        writer.close(); server.close()
    process = await asyncio.create_subprocess_exec('cat', stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
    assert (await process.communicate(b'x'))[0] == b'x'
    process = await asyncio.create_subprocess_shell('exit 4')
    assert await process.wait() == 4
    assert await asyncio.to_thread(lambda: 5) == 5
    assert await asyncio.gather(*(asyncio.sleep(0.01, i) for i in range(100))) == list(range(100))
    loop = asyncio.get_running_loop()
    assert await loop.run_in_executor(None, pow, 2, 3) == 8
    assert await loop.getaddrinfo('localhost', 80)
asyncio.run(main())
",
        r"
import functools, http.server, requests, threading, urllib.request
open('served.txt', 'w').write('served')
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory='.')
handler.func.log_message = lambda *arguments: None
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f'http://127.0.0.1:{server.server_port}/served.txt'
assert urllib.request.urlopen(url).read() == b'served'
assert requests.get(url, timeout=5).text == 'served'
assert requests.get(url.replace('127.0.0.1', 'localhost'), timeout=5).ok
server.shutdown()
",
        r"
import array, os, select, selectors, socket, ssl, struct, xmlrpc.client, xmlrpc.server
context = ssl.create_default_context()
assert context.verify_mode == ssl.CERT_REQUIRED and ssl.OPENSSL_VERSION
one, two = socket.socketpair()
reader, writer = os.pipe()
socket.send_fds(one, [b'x'], [reader])
data, descriptors, *_ = socket.recv_fds(two, 1, 1)
os.write(writer, b'through'); assert os.read(descriptors[0], 10) == b'through'
tcp = socket.create_server(('127.0.0.1', 0), reuse_port=True)
for level, option in ((socket.SOL_SOCKET, socket.SO_REUSEADDR), (socket.SOL_SOCKET, socket.SO_KEEPALIVE), (socket.IPPROTO_TCP, socket.TCP_NODELAY),
                      (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE), (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL), (socket.IPPROTO_TCP, socket.TCP_KEEPCNT),
                      (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT), (socket.IPPROTO_TCP, socket.TCP_QUICKACK)):
    tcp.setsockopt(level, option, 5); tcp.getsockopt(level, option)
for kind in (socket.SO_SNDBUF, socket.SO_RCVBUF): tcp.setsockopt(socket.SOL_SOCKET, kind, 100_000)
tcp.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); udp.bind(('127.0.0.1', 0)); udp.sendto(b'x', udp.getsockname()); assert udp.recv(1) == b'x'
poll = select.poll(); poll.register(udp); epoll = select.epoll(); epoll.register(udp); epoll.poll(0.01); select.select([], [udp], [], 1)
with selectors.DefaultSelector() as selector: selector.register(udp, selectors.EVENT_WRITE); assert selector.select(1)
assert socket.getaddrinfo('127.0.0.1', 80) and socket.gethostname() == 'belljar' and socket.getfqdn()
assert socket.gethostbyname('localhost') == '127.0.0.1' and socket.getservbyname('http') == 80 if os.path.exists('/etc/services') else True
",
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files() {
    all_work(&[
        r"
import os, pathlib, shutil, tarfile, tempfile, zipfile
with tempfile.TemporaryDirectory() as directory, tempfile.NamedTemporaryFile() as named, tempfile.TemporaryFile() as plain, tempfile.SpooledTemporaryFile(10) as spooled:
    assert directory.startswith('/tmp/')
    plain.write(b'x'); spooled.write(b'x' * 100)
root = pathlib.Path('tree'); (root / 'a/b').mkdir(parents=True)
(root / 'a/b/file.txt').write_text('text'); (root / 'link').symlink_to('a/b/file.txt'); os.link(root / 'a/b/file.txt', root / 'hard')
shutil.copytree(root, 'copy', symlinks=True); shutil.copy2('copy/hard', 'copy/second'); shutil.copyfile('copy/hard', 'copy/third')
for kind in ('zip', 'tar', 'gztar', 'bztar', 'xztar'):
    archive = shutil.make_archive('archive-' + kind, kind, 'tree')
    shutil.unpack_archive(archive, 'unpacked-' + kind)
    assert pathlib.Path(f'unpacked-{kind}/a/b/file.txt').read_text() == 'text'
with zipfile.ZipFile('z.zip', 'w', zipfile.ZIP_DEFLATED) as archive: archive.write('tree/hard'); archive.writestr('s', 'x')
with tarfile.open('t.tar.xz', 'w:xz') as archive: archive.add('tree')
shutil.move('copy', 'moved'); shutil.rmtree('moved')
assert shutil.disk_usage('/workspace').total > 0 and shutil.which('ls')
assert sorted(path.name for path in root.rglob('*')) == ['a', 'b', 'file.txt', 'hard', 'link']
",
        r"
import fcntl, mmap, os, stat, time
with open('m', 'w+b') as file:
    file.truncate(100_000)
    with mmap.mmap(file.fileno(), 0) as area:
        area[:5] = b'hello'; area.flush(); area.madvise(mmap.MADV_SEQUENTIAL); area.resize(200_000)
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB); fcntl.lockf(file, fcntl.LOCK_EX)
    os.posix_fallocate(file.fileno(), 0, 300_000); os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_WILLNEED)
    os.fsync(file.fileno()); os.fdatasync(file.fileno()); os.sync()
    assert os.pread(file.fileno(), 5, 0) == b'hello' and os.pwrite(file.fileno(), b'x', 1) == 1
    assert os.copy_file_range(file.fileno(), os.open('n', os.O_CREAT | os.O_WRONLY), 10, 0) == 10
os.utime('m', (1, 2)); os.chmod('m', 0o600); os.chown('m', -1, -1); os.mkfifo('fifo'); os.rename('n', 'o'); os.replace('o', 'p'); os.truncate('p', 1)
assert os.stat('m').st_mtime == 2 and stat.S_ISFIFO(os.stat('fifo').st_mode) and os.access('m', os.R_OK)
os.setxattr('m', 'user.note', b'x') if 'user.note' in os.listxattr('m') else None
assert os.statvfs('/workspace').f_bsize and os.listdir('/') and os.getcwd() == '/workspace' and os.umask(0o022) == 0o022
with os.scandir('/usr/lib') as entries: assert sum(entry.is_dir() for entry in entries)
import numpy
assert sum(len(names) for _, _, names in os.walk(os.path.dirname(os.path.dirname(numpy.__file__)))) > 3000
import errno
for mode in ('w', 'a'):
    try: open('/usr/new', mode); raise AssertionError
    except OSError as error: assert error.errno in (errno.EROFS, errno.EACCES), error
",
        r"
import bz2, gzip, hashlib, hmac, json, lzma, pickle, shelve, csv, configparser, logging, logging.handlers, zlib, dbm.dumb, marshal, base64
for module in (bz2, gzip, lzma, zlib): assert module.decompress(module.compress(b'x' * 10_000)) == b'x' * 10_000
for name in ('sha256', 'sha3_512', 'blake2b', 'md5'): assert hashlib.new(name, b'x').hexdigest()
assert hashlib.file_digest(open('/etc/passwd', 'rb'), 'sha256').hexdigest() if hasattr(hashlib, 'file_digest') else True
assert hashlib.scrypt(b'p', salt=b's', n=16, r=1, p=1) and hashlib.pbkdf2_hmac('sha256', b'p', b's', 10) and hmac.digest(b'k', b'm', 'sha256')
with shelve.open('shelf') as shelf: shelf['a'] = [1]
handler = logging.handlers.RotatingFileHandler('log.txt', maxBytes=100, backupCount=2)
logger = logging.getLogger('test'); logger.addHandler(handler); logger.propagate = False
for i in range(100): logger.warning('line %d', i)
import os
assert os.path.exists('log.txt.2')
",
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_system() {
    all_work(&[
        r"
import datetime, decimal, faulthandler, fractions, getpass, locale, os, platform, pwd, resource, secrets, shutil, signal, statistics, sys, sysconfig, time, uuid, zoneinfo
assert getpass.getuser() == 'belljar' and os.path.expanduser('~') == '/tmp' and pwd.getpwuid(os.getuid()).pw_name == 'belljar'
found = (platform.system(), platform.node(), platform.libc_ver()[0], platform.processor())
assert found[:2] == ('Linux', 'belljar') and found[2] in ('glibc', 'musl') and platform.machine() and platform.platform(), found
assert locale.setlocale(locale.LC_ALL, '') and locale.getpreferredencoding().lower() == 'utf-8'
assert datetime.datetime.now(zoneinfo.ZoneInfo('Asia/Tokyo')).utcoffset() == datetime.timedelta(hours=9)
assert time.tzname and time.localtime() and time.strftime('%c') and time.clock_gettime(time.CLOCK_MONOTONIC) and time.process_time() >= 0 and time.thread_time() >= 0
decimal.getcontext().prec = 50; assert len(str(decimal.Decimal(2).sqrt())) == 51
assert uuid.uuid1() != uuid.uuid4() and secrets.token_urlsafe() and os.urandom(8) and os.getrandom(8)
assert shutil.get_terminal_size() == (80, 24) and not sys.stdout.isatty() and os.cpu_count() >= 1 and len(os.sched_getaffinity(0)) >= 1
assert os.getloadavg() and os.times() and resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 0 and os.nice(0) >= 0 and os.getpriority(os.PRIO_PROCESS, 0) >= 0
assert os.sysconf('SC_PAGE_SIZE') == 4096 or os.sysconf('SC_PAGE_SIZE') > 4096
assert sysconfig.get_paths() and sys.getfilesystemencoding() == 'utf-8'
",
        r"
import faulthandler, signal, sys, tempfile, time, threading, ctypes, os
seen = []
signal.signal(signal.SIGALRM, lambda *_: seen.append('alarm'))
signal.setitimer(signal.ITIMER_REAL, 0.01); time.sleep(0.1)
signal.signal(signal.SIGUSR1, lambda *_: seen.append('user')); os.kill(os.getpid(), signal.SIGUSR1); signal.raise_signal(signal.SIGUSR1)
assert seen == ['alarm', 'user', 'user'], seen
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2]); os.kill(os.getpid(), signal.SIGUSR2)
assert signal.sigtimedwait([signal.SIGUSR2], 1).si_signo == signal.SIGUSR2
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR2])
with tempfile.TemporaryFile() as file:
    faulthandler.dump_traceback(file); faulthandler.dump_traceback_later(0.01, file=file); time.sleep(0.1); faulthandler.cancel_dump_traceback_later()
    file.seek(0); assert b'Timeout' in file.read()
compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))(lambda a, b: a[0] - b[0])
numbers = (ctypes.c_int * 4)(3, 1, 4, 1)
ctypes.CDLL(None).qsort(numbers, 4, 4, compare)
assert list(numbers) == [1, 1, 3, 4]
fd = os.eventfd(0); os.eventfd_write(fd, 1); assert os.eventfd_read(fd) == 1
memory = os.memfd_create('m'); os.write(memory, b'x')
pid = os.fork()
if pid == 0: os._exit(5)
descriptor = os.pidfd_open(pid); assert os.waitid(os.P_PIDFD, descriptor, os.WEXITED).si_status == 5
",
        r#"
import certifi, cloudpickle, dateutil.parser, fontTools.ttLib, idna, packaging.version, pickle, pydantic
class Row(pydantic.BaseModel):
    name: str
    count: int = 0
assert Row.model_validate_json('{"name": "a", "count": "3"}').count == 3
assert pickle.loads(cloudpickle.dumps(lambda x: x + 1))(1) == 2
assert dateutil.parser.parse('3 May 2024').day == 3 and open(certifi.where()).read(10) and idna.encode('ä.example')
"#,
        r#"
import shutil, subprocess, ctypes
if shutil.which('gcc'):
    open('f.c', 'w').write('int twice(int x) { return 2 * x; }')
    subprocess.run(['gcc', '-shared', '-fPIC', '-O2', '-o', 'f.so', 'f.c'], check=True)
    assert ctypes.CDLL('./f.so').twice(21) == 42
    open('g.c', 'w').write('#include <stdio.h>\nint main(void) { puts("compiled"); return 0; }')
    assert subprocess.check_output('gcc g.c -o g && ./g', shell=True) == b'compiled\n'
"#,
        r"
import subprocess, sys, venv
if subprocess.run([sys.executable, '-m', 'pip', '--version'], capture_output=True).returncode == 0:
    subprocess.run([sys.executable, '-m', 'pip', 'list'], check=True, capture_output=True)
open('module.py', 'w').write('def f(): return 1')
import module
assert module.f() == 1
assert subprocess.run([sys.executable, '-m', 'timeit', '-n', '1', 'pass'], capture_output=True).returncode == 0
open('test_it.py', 'w').write('import unittest\nclass T(unittest.TestCase):\n    def test(self): self.assertTrue(True)\n')
assert subprocess.run([sys.executable, '-m', 'unittest', 'test_it'], capture_output=True).returncode == 0
import cProfile, pstats, tracemalloc, trace
tracemalloc.start(); profile = cProfile.Profile(); profile.runcall(sum, range(1000)); tracemalloc.stop()
",
    ])
    .await;
}
