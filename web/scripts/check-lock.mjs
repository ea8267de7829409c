// Whether `npm ci` can work with package-lock.json, on any platform and with any registry: each package has the hash of
// its contents and no address, and each dependency has an entry, those of other platforms too.
import { readFile } from 'node:fs/promises';

const file = process.argv[2] ?? new URL('../package-lock.json', import.meta.url);
const { packages } = JSON.parse(await readFile(file, 'utf8'));

/** Whether a package that is installed at `at` finds `name`: beside itself, or beside one that it is in. */
function finds(at, name) {
  for (let place = at; ; place = place.slice(0, Math.max(0, place.lastIndexOf('node_modules/') - 1))) {
    if (packages[place === '' ? `node_modules/${name}` : `${place}/node_modules/${name}`]) return true;
    if (place === '') return false;
  }
}

const faults = [];
for (const [at, entry] of Object.entries(packages)) {
  if (at !== '' && !/^sha512-[A-Za-z0-9+/]{86}==$/.test(entry.integrity ?? ''))
    faults.push(`${at} has no SHA-512 hash`);
  if (entry.resolved) faults.push(`${at} names an address: ${entry.resolved}`);
  for (const name of Object.keys({ ...entry.dependencies, ...entry.devDependencies, ...entry.optionalDependencies })) {
    if (!finds(at, name)) faults.push(`${at || 'the project'} needs ${name}, which has no entry`);
  }
}
if (faults.length > 0) {
  for (const fault of faults) console.error(`package-lock.json: ${fault}`);
  console.error(
    'hint: npm install --package-lock-only in web/, with a registry that has the packages of all platforms',
  );
  process.exitCode = 1;
} else {
  console.log(`package-lock.json: ${Object.keys(packages).length - 1} packages, each with its hash`);
}
