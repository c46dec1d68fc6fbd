package dev.kevel;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/**
 * A Kubernetes API server for tests.
 *
 * <pre>{@code
 * try (KevelServer server = KevelServer.start()) {
 *     Path kubeconfig = server.kubeconfig(); // an administrator's
 * }
 * }</pre>
 *
 * <p>It keeps its objects in memory and listens on a free port of 127.0.0.1. With JUnit, a server of all tests of a class is a
 * field: {@code @AutoClose static final KevelServer server = KevelServer.start();}
 */
public final class KevelServer implements AutoCloseable {
    /** Message that the server logs when it is ready, in text and in JSON. */
    private static final String READY = "\"Ready\"";

    private static final String IN_USE = "Address already in use";

    /**
     * Ports that are tried before it is an error that none is free: another process may take one between being found free and
     * being bound.
     */
    private static final int ATTEMPTS = 20;

    /** Time in which a server has to be ready. */
    private static final Duration START = Duration.ofSeconds(60);

    /** Time after which a server that does not stop is killed: longer than its requests may take. */
    private static final Duration STOP = Duration.ofSeconds(70);

    private static final Duration POLL = Duration.ofMillis(5);

    private final Process process;
    private final int port;
    private final Path dataDir;
    private final Thread hook;

    private KevelServer(Process process, int port, Path dataDir) {
        this.process = process;
        this.port = port;
        this.dataDir = dataDir;
        // A server that is not closed ends with the virtual machine.
        this.hook = new Thread(this::end);
        Runtime.getRuntime().addShutdownHook(hook);
    }

    /**
     * Starts a server and waits until it is ready.
     *
     * @param flags flags of kube-apiserver beside those of address, port and storage
     */
    public static KevelServer start(String... flags) {
        try {
            for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
                KevelServer server = run(flags);
                if (server.isReady()) {
                    return server;
                }
                server.close();
            }
            throw new IllegalStateException("no port is free");
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** Path of the administrator's kubeconfig. */
    public Path kubeconfig() {
        return dataDir.resolve("admin.kubeconfig");
    }

    /** Address of the server. */
    public URI uri() {
        return URI.create("https://127.0.0.1:" + port);
    }

    /** Text that the server has logged so far. */
    public String log() {
        try {
            return new String(Files.readAllBytes(logFile(dataDir)), StandardCharsets.UTF_8);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** Stops the server and deletes its folder. A second call does nothing. */
    @Override
    public void close() {
        try {
            Runtime.getRuntime().removeShutdownHook(hook);
        } catch (IllegalStateException shutdown) {
            // The hook runs already.
            return;
        }
        end();
    }

    private void end() {
        process.destroy();
        try {
            if (!process.waitFor(STOP.toMillis(), TimeUnit.MILLISECONDS)) {
                process.destroyForcibly().waitFor();
            }
        } catch (InterruptedException interrupted) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
        delete(dataDir);
    }

    private static KevelServer run(String... flags) throws IOException {
        Path dataDir = Files.createTempDirectory("kevel-");
        int port = freePort();
        List<String> command = new ArrayList<>();
        command.add(Program.PATH.toString());
        command.add("--data-dir=" + dataDir);
        command.add("--storage=memory");
        command.add("--bind-address=127.0.0.1");
        command.add("--secure-port=" + port);
        command.addAll(List.of(flags));
        // Like everything in that folder, the log is its owner's alone.
        Files.createFile(logFile(dataDir), PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
        File log = logFile(dataDir).toFile();
        Process process = new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(log).start();
        return new KevelServer(process, port, dataDir);
    }

    /** Waits for the server. False if another process has its port. */
    private boolean isReady() {
        long deadline = System.nanoTime() + START.toNanos();
        while (true) {
            // First the process, then the log: what it logged before it ended is there.
            boolean ended = !process.isAlive();
            String log = log();
            if (!ended && log.contains(READY)) {
                return true;
            }
            if (ended && log.contains(IN_USE)) {
                return false;
            }
            if (ended || System.nanoTime() > deadline) {
                String why = ended ? "the server ended with " + process.exitValue() : "the server is not ready";
                close();
                throw new IllegalStateException(why + ":\n" + log);
            }
            try {
                Thread.sleep(POLL.toMillis());
            } catch (InterruptedException interrupted) {
                close();
                Thread.currentThread().interrupt();
                throw new IllegalStateException("interrupted", interrupted);
            }
        }
    }

    private static Path logFile(Path dataDir) {
        return dataDir.resolve("kube-apiserver.log");
    }

    private static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getByName("127.0.0.1"))) {
            return socket.getLocalPort();
        }
    }

    private static void delete(Path folder) {
        try (Stream<Path> paths = Files.walk(folder)) {
            paths.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
        } catch (IOException | UncheckedIOException gone) {
            // A folder that cannot be deleted is left to the system, which cleans its temporary files.
        }
    }

    /** The program of this machine, taken out of the jar once. */
    private static final class Program {
        static final Path PATH = extract();

        private static Path extract() {
            String resource = "linux-" + System.getProperty("os.arch") + "/kube-apiserver";
            try (InputStream program = KevelServer.class.getResourceAsStream(resource)) {
                if (program == null) {
                    throw new IllegalStateException("no " + resource + " in the jar");
                }
                Path folder = Files.createTempDirectory("kevel-program-");
                Path path = folder.resolve("kube-apiserver");
                folder.toFile().deleteOnExit();
                path.toFile().deleteOnExit();
                Files.copy(program, path);
                Files.setPosixFilePermissions(path, PosixFilePermissions.fromString("rwx------"));
                return path;
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }
    }
}
