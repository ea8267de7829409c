// A plain program that uses the package: for Deno, and for browsers.
import * as package_ from 'belljar';

async function main({ Belljar, NotFoundError }, options) {
  const belljar = new Belljar(options);
  const session = await belljar.session();
  try {
    await session.files.put('a.txt', '42');
    const outcome = await session.run("int(open('a.txt').read())");
    const kinds = [];
    for await (const event of session.stream("print('x')")) kinds.push(event.type);
    const refusal = await belljar.attach('nobody').catch((error) => error);
    if (!(refusal instanceof NotFoundError)) throw refusal;
    console.log(`${outcome.ok ? 'ok' : 'failed'} ${outcome.value} ${kinds} ${refusal.name}`);
  } finally {
    await belljar.close();
  }
}

await main(package_);
