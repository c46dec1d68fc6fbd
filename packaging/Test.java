import dev.kevel.KevelServer;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** The jar: servers are started, asked and stopped. */
final class Test {
    public static void main(String[] arguments) throws IOException, InterruptedException {
        Path folder;
        try (KevelServer one = KevelServer.start();
                KevelServer two = KevelServer.start("--v=1")) {
            folder = one.kubeconfig().getParent();
            check(!one.uri().equals(two.uri()), "one port for two servers");
            kubectl(one, "create", "configmap", "a");
            check(kubectl(one, "get", "configmaps", "-o", "name").contains("configmap/a"), "no object");
            check(!kubectl(two, "get", "configmaps", "-o", "name").contains("configmap/a"), "an object of another server");
            check(two.log().contains("FLAG: --v"), two.log());
        }
        check(!Files.exists(folder), "the folder is left");
        try {
            KevelServer.start("--foo").close();
            throw new AssertionError("a wrong flag was taken");
        } catch (IllegalStateException expected) {
            check(expected.getMessage().contains("unknown flag: --foo"), expected.getMessage());
        }
    }

    private static String kubectl(KevelServer server, String... arguments) throws IOException, InterruptedException {
        String[] command = new String[arguments.length + 3];
        command[0] = "kubectl";
        command[1] = "--kubeconfig";
        command[2] = server.kubeconfig().toString();
        System.arraycopy(arguments, 0, command, 3, arguments.length);
        Process process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        String output = new String(process.getInputStream().readAllBytes());
        check(process.waitFor() == 0, String.join(" ", command));
        return output;
    }

    private static void check(boolean holds, String why) {
        if (!holds) {
            throw new AssertionError(why);
        }
    }
}
