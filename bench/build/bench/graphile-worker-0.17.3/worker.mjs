// The worker process of the benchmark: graphile-worker as its documentation
// says for throughput, with a task that only tells that it was called.
//
//   node worker.mjs migrate    makes the schema
//   node worker.mjs work       works until standard input ends; prints "ready",
//                              then a line "n microseconds" for every call
import { once } from "node:events";
import pg from "pg";
import { run, runMigrations, Logger } from "graphile-worker";

const complain = (error) => console.error("graphile-worker:", error.message);
const pgPool = new pg.Pool({ max: 30 }); // the database is in PGHOST and its like
pgPool.on("error", complain);
pgPool.on("connect", (client) => client.on("error", complain));
const settings = {
  pgPool,
  noHandleSignals: true,
  logger: new Logger(() => (level, message) => {
    if (level === "error" || level === "warning") console.error("graphile-worker:", message);
  }),
};

if (process.argv[2] === "migrate") {
  await runMigrations(settings);
} else {
  let lines = [];
  const flush = () => {
    process.stdout.write(lines.join(""));
    lines = [];
  };
  const payment = async ({ n }) => {
    const at = Math.round((performance.timeOrigin + performance.now()) * 1000);
    if (lines.push(`${n} ${at}\n`) === 1) setImmediate(flush);
  };
  const runner = await run({
    ...settings,
    preset: { worker: { concurrentJobs: 24, completeJobBatchDelay: 0, localQueue: { size: 500 } } },
    taskList: { payment },
  });
  process.stdout.write("ready\n");
  process.stdin.resume();
  await once(process.stdin, "end");
  await runner.stop();
}
await pgPool.end();
